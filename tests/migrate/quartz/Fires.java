import java.time.Instant;
import java.util.Date;

import org.quartz.Calendar;
import org.quartz.Scheduler;
import org.quartz.TriggerKey;
import org.quartz.impl.matchers.GroupMatcher;
import org.quartz.spi.OperableTrigger;

/** Prints the fire times of stored triggers in a span of time, a trigger a line, as Quartz's triggers compute them. */
public final class Fires {
    public static void main(String[] arguments) throws Exception {
        java.util.TimeZone.setDefault(java.util.TimeZone.getTimeZone("Europe/Berlin"));
        Scheduler scheduler = Made.scheduler(arguments[0], arguments[1], arguments[2], "serialized", "false");
        Date from = Date.from(Instant.parse(arguments[3]));
        Date until = Date.from(Instant.parse(arguments[4]));
        for (TriggerKey key : scheduler.getTriggerKeys(GroupMatcher.anyTriggerGroup())) {
            OperableTrigger trigger = (OperableTrigger) scheduler.getTrigger(key);
            Calendar calendar = trigger.getCalendarName() == null ? null
                    : scheduler.getCalendar(trigger.getCalendarName());
            StringBuilder line = new StringBuilder(key.getGroup() + "." + key.getName());
            while (trigger.getNextFireTime() != null && trigger.getNextFireTime().before(until)) {
                if (!trigger.getNextFireTime().before(from)) {
                    line.append('\t').append(trigger.getNextFireTime().getTime());
                }
                trigger.triggered(calendar);
            }
            System.out.println(line);
        }
        System.exit(0);
    }

    private Fires() {
    }
}
