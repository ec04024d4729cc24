import java.time.Duration;
import java.time.Instant;
import java.util.Date;
import java.util.HashSet;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.Collectors;

import org.quartz.Job;
import org.quartz.JobBuilder;
import org.quartz.JobDetail;
import org.quartz.JobExecutionContext;
import org.quartz.Scheduler;
import org.quartz.SimpleScheduleBuilder;
import org.quartz.Trigger;
import org.quartz.TriggerBuilder;

/** Fires triggers at a steady rate, and prints how late each job started, in milliseconds. */
public final class Latency {
    private static final Queue<Double> LATENESS = new ConcurrentLinkedQueue<>();

    public static final class Note implements Job {
        @Override
        public void execute(JobExecutionContext context) {
            Duration late = Duration.between(context.getScheduledFireTime().toInstant(), Instant.now());
            LATENESS.add(late.toNanos() / 1e6);
        }
    }

    public static void main(String[] arguments) throws Exception {
        int rate = Integer.parseInt(arguments[3]);
        double warmUp = Double.parseDouble(arguments[4]);
        double seconds = Double.parseDouble(arguments[5]);
        Scheduler scheduler = Cluster.scheduler(arguments[0], arguments[1], arguments[2]);
        JobDetail job = JobBuilder.newJob(Note.class).withIdentity("note").storeDurably().build();
        // One trigger stored takes a few milliseconds, so the first instant is later the more there are.
        long begin = System.currentTimeMillis() + 2_000 + 5L * rate;
        Set<Trigger> triggers = new HashSet<>();
        for (int number = 0; number < rate; number++) {
            triggers.add(TriggerBuilder.newTrigger()
                .withIdentity("t" + number)
                .startAt(new Date(begin + number * 1_000L / rate))
                .withSchedule(SimpleScheduleBuilder.repeatSecondlyForever())
                .build());
        }
        scheduler.scheduleJob(job, triggers, false);
        Cluster.vacuum(arguments[0], arguments[1], arguments[2]);
        scheduler.start();
        Thread.sleep(Math.max(0, begin - System.currentTimeMillis()) + Math.round(warmUp * 1_000));
        LATENESS.clear();
        Thread.sleep(Math.round(seconds * 1_000));
        String values = LATENESS.stream().map(Object::toString).collect(Collectors.joining(", ", "[", "]"));
        System.out.println("{\"lateness_ms\": " + values + "}");
        scheduler.shutdown(true);
    }

    private Latency() {
    }
}
