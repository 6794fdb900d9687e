import type { Row } from '../row.ts';
import { backlogRows } from './backlogs.ts';
import { clockRows } from './clock.ts';
import { crashLoopRow } from './crash-loop.ts';
import { databaseClockRow } from './database-clock.ts';
import { dependenciesRow } from './dependencies.ts';
import { deployBetweenRow } from './deploy-between.ts';
import { failingRecordsRow } from './failing-records.ts';
import { failoverRow } from './failover.ts';
import { fewSocketsRow } from './few-sockets.ts';
import { frozenWorkerRow } from './frozen-worker.ts';
import { fullLogRow } from './full-log.ts';
import { hangingRows } from './hanging.ts';
import { kafkaRows } from './kafka.ts';
import { latencyRow } from './latency.ts';
import { lockedOutboxRow } from './locked-outbox.ts';
import { mailsRow } from './mails.ts';
import { nastyAnswersRow } from './nasty-answers.ts';
import { postgresRow } from './postgres.ts';
import { processingRows } from './processing.ts';
import { processingOutageRow } from './processing-outage.ts';
import { refusalsRow } from './refusals.ts';
import { sigkillRows } from './sigkill.ts';
import { unrecordedResultsRow } from './unrecorded-results.ts';

/** The rows of the suite, in the order in which they run and are printed. */
export const ROWS: readonly Row[] = [
  latencyRow,
  ...sigkillRows,
  postgresRow,
  failoverRow,
  refusalsRow,
  unrecordedResultsRow,
  failingRecordsRow,
  processingOutageRow,
  lockedOutboxRow,
  ...kafkaRows,
  frozenWorkerRow,
  deployBetweenRow,
  fewSocketsRow,
  ...hangingRows,
  crashLoopRow,
  dependenciesRow,
  mailsRow,
  nastyAnswersRow,
  fullLogRow,
  ...clockRows,
  databaseClockRow,
  ...processingRows,
  ...backlogRows,
];
