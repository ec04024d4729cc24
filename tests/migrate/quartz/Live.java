import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.Timestamp;
import java.util.TimeZone;

import org.quartz.CronScheduleBuilder;
import org.quartz.Job;
import org.quartz.JobBuilder;
import org.quartz.JobDetail;
import org.quartz.JobExecutionContext;
import org.quartz.JobExecutionException;
import org.quartz.Scheduler;
import org.quartz.SimpleScheduleBuilder;
import org.quartz.TriggerBuilder;

/** A running Quartz whose jobs write the instants that they are for into a table, until its input ends. */
public final class Live {
    private static String[] database;

    public static class Record implements Job {
        @Override
        public void execute(JobExecutionContext context) throws JobExecutionException {
            try (Connection connection = DriverManager.getConnection(database[0], database[1], database[2]);
                    PreparedStatement insert = connection.prepareStatement("INSERT INTO fires VALUES (?, ?, 'Quartz')")) {
                insert.setString(1, context.getTrigger().getKey().getName());
                insert.setTimestamp(2, new Timestamp(context.getScheduledFireTime().getTime()));
                insert.execute();
            } catch (Exception error) {
                throw new JobExecutionException(error);
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        database = arguments;
        Made.tables(arguments[0], arguments[1], arguments[2]);
        Scheduler scheduler = Made.scheduler(arguments[0], arguments[1], arguments[2], "live", "true");
        JobDetail job = JobBuilder.newJob(Record.class).withIdentity("record").storeDurably().build();
        scheduler.addJob(job, false);
        scheduler.scheduleJob(TriggerBuilder.newTrigger().withIdentity("cron").forJob(job)
                .withSchedule(CronScheduleBuilder.cronSchedule("* * * * * ?")).build());
        scheduler.scheduleJob(TriggerBuilder.newTrigger().withIdentity("simple").forJob(job)
                .withSchedule(SimpleScheduleBuilder.simpleSchedule().withIntervalInMilliseconds(700).withRepeatCount(500))
                .build());
        scheduler.start();
        while (System.in.read() >= 0) {
            continue;
        }
        scheduler.shutdown(true);
        System.exit(0);
    }

    private Live() {
    }
}
