import java.io.InputStream;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.Statement;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Date;
import java.util.GregorianCalendar;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import java.util.TimeZone;
import java.util.concurrent.CountDownLatch;

import org.quartz.CalendarIntervalScheduleBuilder;
import org.quartz.CronScheduleBuilder;
import org.quartz.DailyTimeIntervalScheduleBuilder;
import org.quartz.DateBuilder;
import org.quartz.JobBuilder;
import org.quartz.JobDetail;
import org.quartz.JobKey;
import org.quartz.Scheduler;
import org.quartz.SimpleScheduleBuilder;
import org.quartz.TimeOfDay;
import org.quartz.Trigger;
import org.quartz.TriggerBuilder;
import org.quartz.TriggerKey;
import org.quartz.impl.StdSchedulerFactory;
import org.quartz.impl.calendar.AnnualCalendar;
import org.quartz.impl.calendar.CronCalendar;
import org.quartz.impl.calendar.DailyCalendar;
import org.quartz.impl.calendar.HolidayCalendar;
import org.quartz.impl.calendar.MonthlyCalendar;
import org.quartz.impl.calendar.WeeklyCalendar;
import org.quartz.impl.matchers.GroupMatcher;
import org.quartz.impl.triggers.CronTriggerImpl;

/** Creates Quartz's tables in a database and fills them through Quartz's own interface. */
public final class Made {
    static final CountDownLatch FIRED = new CountDownLatch(3);
    private static final String TABLES = "org/quartz/impl/jdbcjobstore/tables_postgres.sql";
    private static final TimeZone BERLIN = TimeZone.getTimeZone("Europe/Berlin");
    private static final Date START = Date.from(Instant.parse("2030-03-31T00:30:00Z"));

    public static void main(String[] arguments) throws Exception {
        TimeZone.setDefault(BERLIN);
        String url = arguments[0];
        String user = arguments[1];
        String password = arguments[2];
        tables(url, user, password);
        properties(scheduler(url, user, password, "properties", "true"));
        serialized(scheduler(url, user, password, "serialized", "false"));
        System.exit(0);
    }

    static void tables(String url, String user, String password) throws Exception {
        try (InputStream stream = Scheduler.class.getClassLoader().getResourceAsStream(TABLES);
                Connection connection = DriverManager.getConnection(url, user, password);
                Statement statement = connection.createStatement()) {
            statement.execute(new String(stream.readAllBytes(), StandardCharsets.UTF_8));
        }
    }

    static Scheduler scheduler(String url, String user, String password, String name, String properties)
            throws Exception {
        Properties settings = new Properties();
        settings.put("org.quartz.scheduler.instanceName", name);
        settings.put("org.quartz.scheduler.instanceId", "AUTO");
        settings.put("org.quartz.scheduler.skipUpdateCheck", "true");
        settings.put("org.quartz.threadPool.class", "org.quartz.simpl.SimpleThreadPool");
        settings.put("org.quartz.threadPool.threadCount", "2");
        settings.put("org.quartz.jobStore.class", "org.quartz.impl.jdbcjobstore.JobStoreTX");
        settings.put("org.quartz.jobStore.driverDelegateClass", "org.quartz.impl.jdbcjobstore.PostgreSQLDelegate");
        settings.put("org.quartz.jobStore.isClustered", "true");
        settings.put("org.quartz.jobStore.useProperties", properties);
        settings.put("org.quartz.jobStore.dataSource", "database");
        settings.put("org.quartz.dataSource.database.provider", "hikaricp");
        settings.put("org.quartz.dataSource.database.driver", "org.postgresql.Driver");
        settings.put("org.quartz.dataSource.database.URL", url);
        settings.put("org.quartz.dataSource.database.user", user);
        settings.put("org.quartz.dataSource.database.password", password);
        settings.put("org.quartz.dataSource.database.maxConnections", "3");
        return new StdSchedulerFactory(settings).getScheduler();
    }

    private static JobDetail job(Class<? extends org.quartz.Job> type, String name) {
        return JobBuilder.newJob(type).withIdentity(name, "reports").storeDurably().build();
    }

    private static TriggerBuilder<Trigger> trigger(String name, String job) {
        return TriggerBuilder.newTrigger().withIdentity(name, "times").forJob(job, "reports").startAt(START);
    }

    private static void properties(Scheduler scheduler) throws Exception {
        JobDetail job = job(Jobs.Report.class, "texts");
        job.getJobDataMap().put("region", "eu");
        job.getJobDataMap().put("odd key: = #", "Grüße, \\ \t 世界\nline");
        job.getJobDataMap().put("empty", "");
        scheduler.addJob(job, false);
        Trigger trigger = trigger("texts", "texts").usingJobData("region", "us")
                .withSchedule(CronScheduleBuilder.cronSchedule("0 0 2 * * ?").inTimeZone(BERLIN)).build();
        scheduler.scheduleJob(trigger);
        scheduler.shutdown();
    }

    private static void serialized(Scheduler scheduler) throws Exception {
        calendars(scheduler);
        data(scheduler);
        cron(scheduler);
        others(scheduler);
        states(scheduler);
        fired(scheduler);
        scheduler.shutdown(true);
    }

    private static void calendars(Scheduler scheduler) throws Exception {
        HolidayCalendar holidays = new HolidayCalendar();
        holidays.setTimeZone(BERLIN);
        holidays.setDescription("Days off");
        holidays.addExcludedDate(new GregorianCalendar(2030, 2, 30).getTime());
        holidays.addExcludedDate(new GregorianCalendar(2030, 11, 25).getTime());
        scheduler.addCalendar("holidays", holidays, false, false);
        AnnualCalendar annual = new AnnualCalendar(BERLIN);
        annual.setDayExcluded(new GregorianCalendar(2000, 1, 29), true);
        annual.setDayExcluded(new GregorianCalendar(2000, 2, 30), true);
        scheduler.addCalendar("annual", annual, false, false);
        WeeklyCalendar weekly = new WeeklyCalendar(TimeZone.getTimeZone("America/New_York"));
        weekly.setDayExcluded(java.util.Calendar.FRIDAY, true);
        scheduler.addCalendar("weekly", weekly, false, false);
        MonthlyCalendar monthly = new MonthlyCalendar(BERLIN);
        monthly.setDayExcluded(1, true);
        monthly.setDayExcluded(31, true);
        scheduler.addCalendar("monthly", monthly, false, false);
        scheduler.addCalendar("cron", new CronCalendar(weekly, "* * 0-1 ? * *", BERLIN), false, false);
        DailyCalendar daily = new DailyCalendar(holidays, "22:15", "23:45:10:500");
        daily.setTimeZone(BERLIN);
        scheduler.addCalendar("daily", daily, false, false);
        DailyCalendar inverted = new DailyCalendar("1:20", "3:00");
        inverted.setInvertTimeRange(true);
        scheduler.addCalendar("no zone", inverted, false, false);
    }

    private static void data(Scheduler scheduler) throws Exception {
        JobDetail job = job(Jobs.Report.class, "values");
        Map<String, Object> data = job.getJobDataMap();
        data.put("text", "Grüße 世界 \ud83d\ude00");
        data.put("integer", 7);
        data.put("long", 1L << 60);
        data.put("short", (short) -3);
        data.put("boolean", true);
        data.put("double", 0.1);
        data.put("float", 1.5f);
        data.put("nothing", null);
        data.put("nul", "a\u0000b");
        data.put("date", Date.from(Instant.parse("2030-01-02T03:04:05.678Z")));
        data.put("decimal", new BigDecimal("-12345678901234567890.0125"));
        data.put("big", new java.math.BigInteger("-123456789012345678901234567890"));
        Map<String, Object> nested = new LinkedHashMap<>();
        nested.put("list", new ArrayList<>(Arrays.asList(1, 2L, "three", null)));
        nested.put("map", new HashMap<>(Map.of("deep", Boolean.FALSE)));
        data.put("nested", nested);
        data.put("array", new String[] {"a", "b"});
        data.put("numbers", new int[] {1, 2});
        data.put("sql time", new java.sql.Timestamp(1_893_553_445_678L));
        scheduler.addJob(job, false);
        JobDetail hidden = JobBuilder.newJob(Jobs.Report.class).withIdentity("hidden", "reports").storeDurably()
                .withDescription("Its token is of a class of its own").requestRecovery().build();
        hidden.getJobDataMap().put("region", "eu");
        hidden.getJobDataMap().put("token", new Jobs.Token());
        scheduler.addJob(hidden, false);
    }

    private static void cron(Scheduler scheduler) throws Exception {
        scheduler.addJob(job(Jobs.Report.class, "scheduled"), false);
        String[][] crons = {
            {"cron quarter", "0 0/15 * * * ?", "Europe/Berlin"},
            {"cron half past two", "0 30 2 * * ?", "Europe/Berlin"},
            {"cron lord howe", "0 15/10 0-12 ? * SAT-MON 2030-2031", "Australia/Lord_Howe"},
            {"cron offset", "7 1/7 * ? * *", "GMT+05:30"},
            {"cron short id", "0 5 * L * ?", "PST"},
        };
        for (String[] one : crons) {
            scheduler.scheduleJob(trigger(one[0], "scheduled").withSchedule(CronScheduleBuilder.cronSchedule(one[1])
                    .inTimeZone(TimeZone.getTimeZone(one[2])).withMisfireHandlingInstructionDoNothing()).build());
        }
        for (String calendar : new String[] {"holidays", "annual", "weekly", "monthly", "cron", "daily", "no zone"}) {
            scheduler.scheduleJob(trigger("cron over " + calendar, "scheduled").modifiedByCalendar(calendar)
                    .withSchedule(CronScheduleBuilder.cronSchedule("0 0/5 * * * ?").inTimeZone(BERLIN)
                            .withMisfireHandlingInstructionFireAndProceed()).build());
        }
        scheduler.scheduleJob(trigger("cron ignoring", "scheduled").withPriority(9).withDescription("Every minute")
                .endAt(Date.from(Instant.parse("2031-01-01T00:00:00Z")))
                .withSchedule(CronScheduleBuilder.cronSchedule("30 * * * * ?").inTimeZone(TimeZone.getTimeZone("UTC"))
                        .withMisfireHandlingInstructionIgnoreMisfires()).build());
    }

    private static void others(Scheduler scheduler) throws Exception {
        SimpleScheduleBuilder[] simple = {
            SimpleScheduleBuilder.repeatSecondlyForever(90),
            SimpleScheduleBuilder.repeatMinutelyForTotalCount(5000, 1).withMisfireHandlingInstructionFireNow(),
            SimpleScheduleBuilder.repeatMinutelyForTotalCount(5000, 2)
                    .withMisfireHandlingInstructionNowWithExistingCount(),
            SimpleScheduleBuilder.repeatMinutelyForTotalCount(5000, 3)
                    .withMisfireHandlingInstructionNowWithRemainingCount(),
            SimpleScheduleBuilder.repeatMinutelyForever(4).withMisfireHandlingInstructionNextWithRemainingCount(),
            SimpleScheduleBuilder.repeatMinutelyForever(5).withMisfireHandlingInstructionNextWithExistingCount(),
            SimpleScheduleBuilder.repeatMinutelyForever(6).withMisfireHandlingInstructionIgnoreMisfires(),
        };
        for (int number = 0; number < simple.length; number++) {
            scheduler.scheduleJob(trigger("simple " + number, "scheduled").withSchedule(simple[number]).build());
        }
        scheduler.scheduleJob(trigger("simple once", "scheduled")
                .startAt(Date.from(Instant.parse("2030-03-31T00:45:00.250Z"))).build());
        DateBuilder.IntervalUnit[] units = {DateBuilder.IntervalUnit.MINUTE, DateBuilder.IntervalUnit.HOUR,
            DateBuilder.IntervalUnit.DAY, DateBuilder.IntervalUnit.WEEK, DateBuilder.IntervalUnit.MONTH,
            DateBuilder.IntervalUnit.YEAR};
        for (DateBuilder.IntervalUnit unit : units) {
            scheduler.scheduleJob(trigger("every " + unit, "scheduled")
                    .startAt(Date.from(Instant.parse("2030-03-29T01:30:00Z")))
                    .withSchedule(CalendarIntervalScheduleBuilder.calendarIntervalSchedule().withInterval(2, unit)
                            .inTimeZone(BERLIN).preserveHourOfDayAcrossDaylightSavings(true)
                            .withMisfireHandlingInstructionDoNothing()).build());
        }
        scheduler.scheduleJob(trigger("every day unless skipped", "scheduled")
                .startAt(Date.from(Instant.parse("2030-03-29T01:30:00Z")))
                .withSchedule(CalendarIntervalScheduleBuilder.calendarIntervalSchedule().withIntervalInDays(1)
                        .inTimeZone(BERLIN).preserveHourOfDayAcrossDaylightSavings(true)
                        .skipDayIfHourDoesNotExist(true)).build());
        scheduler.scheduleJob(trigger("daily", "scheduled")
                .withSchedule(DailyTimeIntervalScheduleBuilder.dailyTimeIntervalSchedule().withIntervalInMinutes(7)
                        .onDaysOfTheWeek(1, 2, 7).startingDailyAt(TimeOfDay.hourMinuteAndSecondOfDay(1, 30, 5))
                        .endingDailyAt(TimeOfDay.hourAndMinuteOfDay(18, 0)).withRepeatCount(4000)
                        .withMisfireHandlingInstructionFireAndProceed()).build());
    }

    private static void states(Scheduler scheduler) throws Exception {
        scheduler.addJob(job(Jobs.Report.class, "paused"), false);
        for (String[] key : new String[][] {{"one", "alone"}, {"two", "alone"}, {"held", "night"}, {"freed", "night"}}) {
            scheduler.scheduleJob(TriggerBuilder.newTrigger().withIdentity(key[0], key[1]).forJob("paused", "reports")
                    .startAt(START).withSchedule(SimpleScheduleBuilder.repeatMinutelyForever(10)).build());
        }
        scheduler.pauseTrigger(new TriggerKey("one", "alone"));
        scheduler.pauseTriggers(GroupMatcher.triggerGroupEquals("night"));
        scheduler.resumeTrigger(new TriggerKey("freed", "night"));
        scheduler.scheduleJob(TriggerBuilder.newTrigger().withIdentity("of a class", "blobs")
                .forJob("paused", "reports").startAt(START).build());
        CronTriggerImpl blob = new Special();
        blob.setKey(new TriggerKey("special", "blobs"));
        blob.setJobKey(new JobKey("paused", "reports"));
        blob.setStartTime(START);
        blob.setCronExpression("0 0 * * * ?");
        scheduler.scheduleJob(blob);
    }

    /** A trigger of a class of the user's, which Quartz stores as a blob. */
    static final class Special extends CronTriggerImpl {
        private static final long serialVersionUID = 1L;

        @Override
        public boolean hasAdditionalProperties() {
            return true;
        }
    }

    private static void fired(Scheduler scheduler) throws Exception {
        JobDetail counter = job(Jobs.Counter.class, "counter");
        counter.getJobDataMap().put("count", 0);
        scheduler.addJob(counter, false);
        scheduler.scheduleJob(TriggerBuilder.newTrigger().withIdentity("fired", "times").forJob(counter).startNow()
                .withSchedule(SimpleScheduleBuilder.repeatSecondlyForTotalCount(3, 1)).build());
        scheduler.scheduleJob(TriggerBuilder.newTrigger().withIdentity("fired on", "times").forJob(counter).startNow()
                .withSchedule(SimpleScheduleBuilder.simpleSchedule().withIntervalInHours(24 * 1000)
                        .withRepeatCount(9)).build());
        scheduler.start();
        FIRED.await();
        scheduler.standby();
    }

    private Made() {
    }
}
