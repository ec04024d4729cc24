// A real provider of OpenID Connect: node oidc_provider.mjs PORT REDIRECT_URI
import { Provider } from 'oidc-provider';

const [port, redirect] = [Number(process.argv[2]), process.argv[3]];
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{ client_id: 'quartzpy', client_secret: 'the-secret-of-the-client', redirect_uris: [redirect] }],
  claims: { openid: ['sub'], profile: ['preferred_username', 'groups'] },
  features: { devInteractions: { enabled: true } },
  pkce: { required: () => true },
  async findAccount(_, id) {
    return { accountId: id, claims: async () => ({ sub: id, preferred_username: id, groups: ['ops'] }) };
  },
});
provider.listen(port, '127.0.0.1', () => console.log('ready'));
