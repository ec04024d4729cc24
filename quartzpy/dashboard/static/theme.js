// Runs before the first paint: it tells the server the reader's time zone, which the next page is written in.
(() => {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const root = document.documentElement.dataset.root || "/";
  const known = document.cookie.match(/(?:^|; )quartzpy_zone=([^;]*)/);
  if (zone && !known) {
    document.cookie = `quartzpy_zone=${zone}; Path=${root}; Max-Age=31536000; SameSite=Lax`;
    // Only the first page of a new reader is loaded twice.
    if (document.documentElement.dataset.zone !== zone && document.documentElement.dataset.zoneSource === "server"
        && document.cookie.includes("quartzpy_zone=")) location.reload();
  }
})();
