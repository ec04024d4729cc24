import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.Statement;
import java.util.Properties;

import org.quartz.Scheduler;
import org.quartz.impl.StdSchedulerFactory;

/** A node of a Quartz cluster on PostgreSQL, with the settings that make it fastest. */
final class Cluster {
    private static final String THREADS = System.getProperty("threads", "50");
    private static final String TABLES = "org/quartz/impl/jdbcjobstore/tables_postgres.sql";

    /** Creates Quartz's tables and returns a node that is not started yet. */
    static Scheduler scheduler(String url, String user, String password) throws Exception {
        String tables;
        try (InputStream stream = Scheduler.class.getClassLoader().getResourceAsStream(TABLES)) {
            tables = new String(stream.readAllBytes(), StandardCharsets.UTF_8);
        }
        execute(url, user, password, tables);
        Properties settings = new Properties();
        settings.put("org.quartz.scheduler.instanceName", "benchmark");
        settings.put("org.quartz.scheduler.instanceId", "AUTO");
        settings.put("org.quartz.scheduler.skipUpdateCheck", "true");
        settings.put("org.quartz.threadPool.class", "org.quartz.simpl.SimpleThreadPool");
        settings.put("org.quartz.threadPool.threadCount", THREADS);
        settings.put("org.quartz.scheduler.batchTriggerAcquisitionMaxCount", THREADS);
        settings.put("org.quartz.jobStore.class", "org.quartz.impl.jdbcjobstore.JobStoreTX");
        settings.put("org.quartz.jobStore.driverDelegateClass", "org.quartz.impl.jdbcjobstore.PostgreSQLDelegate");
        settings.put("org.quartz.jobStore.isClustered", "true");
        // Quartz requires it for batches in a cluster.
        settings.put("org.quartz.jobStore.acquireTriggersWithinLock", "true");
        settings.put("org.quartz.jobStore.useProperties", "true");
        settings.put("org.quartz.jobStore.misfireThreshold", "86400000");
        settings.put("org.quartz.jobStore.dataSource", "database");
        settings.put("org.quartz.dataSource.database.provider", "hikaricp");
        settings.put("org.quartz.dataSource.database.driver", "org.postgresql.Driver");
        settings.put("org.quartz.dataSource.database.URL", url + "?prepareThreshold=1");
        settings.put("org.quartz.dataSource.database.user", user);
        settings.put("org.quartz.dataSource.database.password", password);
        settings.put("org.quartz.dataSource.database.maxConnections", "20");
        return new StdSchedulerFactory(settings).getScheduler();
    }

    static void vacuum(String url, String user, String password) throws Exception {
        execute(url, user, password, "VACUUM ANALYZE");
        execute(url, user, password, "CHECKPOINT");
    }

    private static void execute(String url, String user, String password, String statement) throws Exception {
        try (Connection connection = DriverManager.getConnection(url, user, password);
                Statement one = connection.createStatement()) {
            one.execute(statement);
        }
    }

    private Cluster() {
    }
}
