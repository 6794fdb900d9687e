import { createPool } from '../../../services/platform/postgres.ts';
import { killProcessing } from '../../support/processing-kills/run.ts';
import type { Row } from '../row.ts';
import { freshDatabase } from '../system/fresh-database.ts';

const POINTS = { short: 60, full: 1_000 };
const REPORT_EVERY = 100;

/** Processing dies at each of its awaits; the suite is that of the returns service. */
export const processingRow: Row = {
  name: 'processing',
  fault: 'processing killed at every await (1,000 points in the full form)',
  mustHold: 'each exchange order, gift card and refund exactly once',
  budgetMs: { short: 120_000, full: 1_200_000 },
  async run({ system, random, full, say }) {
    const points = POINTS[full ? 'full' : 'short'];
    const url = await freshDatabase({
      serverUrl: system.database.url(),
      schema: 'returns',
      password: system.secrets.databasePassword,
    });
    const pool = createPool(url, { max: 10, applicationName: 'faults-processing' });
    const seed = random.between(1, 1_000_000);
    try {
      const report = await killProcessing({
        pool,
        points,
        seed,
        onProgress: (done) => {
          if (done % REPORT_EVERY === 0) say(`processing: ${done}/${points}`);
        },
      });
      const problems = report.deaths < points ? [`only ${report.deaths} deaths struck`] : [];
      const figures = [
        `${report.deaths} deaths at ${report.points} of ${report.allPoints} points`,
        `${report.scenarios} kinds of outcome`,
      ];
      const none = { lost: 0, duplicates: 0, unexplained: 0 };
      return { ...none, trials: report.trials, inFlight: report.deaths, figures, problems };
    } finally {
      await pool.end();
    }
  },
};
