import java.io.Serializable;

import org.quartz.DisallowConcurrentExecution;
import org.quartz.Job;
import org.quartz.JobExecutionContext;
import org.quartz.PersistJobDataAfterExecution;

/** The job classes of the tables. */
final class Jobs {
    public static class Report implements Job {
        @Override
        public void execute(JobExecutionContext context) {
        }
    }

    @DisallowConcurrentExecution
    @PersistJobDataAfterExecution
    public static class Counter implements Job {
        @Override
        public void execute(JobExecutionContext context) {
            Made.FIRED.countDown();
        }
    }

    /** A class that no library outside of Java can read. */
    static final class Token implements Serializable {
        private static final long serialVersionUID = 1L;
        private final String secret = "s3cret";
    }

    private Jobs() {
    }
}
