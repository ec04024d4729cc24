import java.util.HashSet;
import java.util.Locale;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

import org.quartz.Job;
import org.quartz.JobBuilder;
import org.quartz.JobDetail;
import org.quartz.JobExecutionContext;
import org.quartz.Scheduler;
import org.quartz.SimpleScheduleBuilder;
import org.quartz.Trigger;
import org.quartz.TriggerBuilder;

/** Drains due triggers of a job that does nothing, and prints the number of runs and their seconds. */
public final class Drain {
    private static final long DUE_SINCE_MILLIS = 600_000;
    private static final long TIMEOUT_SECONDS = 300;

    private static final AtomicLong FIRST = new AtomicLong();
    private static final AtomicLong LAST = new AtomicLong();
    private static CountDownLatch left;

    public static final class Nothing implements Job {
        @Override
        public void execute(JobExecutionContext context) {
            long now = System.nanoTime();
            FIRST.compareAndSet(0, now);
            LAST.accumulateAndGet(now, Math::max);
            left.countDown();
        }
    }

    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[3]);
        boolean recurring = arguments[4].equals("recurring");
        left = new CountDownLatch(count);
        Scheduler scheduler = Cluster.scheduler(arguments[0], arguments[1], arguments[2]);
        JobDetail job = JobBuilder.newJob(Nothing.class).withIdentity("nothing").storeDurably().build();
        long due = System.currentTimeMillis() - DUE_SINCE_MILLIS;
        SimpleScheduleBuilder schedule = recurring
            ? SimpleScheduleBuilder.repeatHourlyForever(12)
            : SimpleScheduleBuilder.simpleSchedule();
        Set<Trigger> triggers = new HashSet<>();
        for (int number = 0; number < count; number++) {
            triggers.add(TriggerBuilder.newTrigger()
                .withIdentity("t" + number)
                .startAt(new java.util.Date(due + number / 100))
                .withSchedule(schedule)
                .build());
        }
        scheduler.scheduleJob(job, triggers, false);
        Cluster.vacuum(arguments[0], arguments[1], arguments[2]);
        scheduler.start();
        if (!left.await(TIMEOUT_SECONDS, TimeUnit.SECONDS)) {
            System.err.println(count + " triggers did not fire within " + TIMEOUT_SECONDS + " s");
            System.exit(1);
        }
        scheduler.shutdown(true);
        double seconds = (LAST.get() - FIRST.get()) / 1e9;
        System.out.println(String.format(Locale.ROOT, "{\"count\": %d, \"seconds\": %.6f}", count, seconds));
    }

    private Drain() {
    }
}
