import type { Row } from '../row.ts';
import { backlogRows } from './backlogs.ts';
import { clockRows } from './clock.ts';
import { crashLoopRow } from './crash-loop.ts';
import { dependenciesRow } from './dependencies.ts';
import { frozenWorkerRow } from './frozen-worker.ts';
import { hangingRows } from './hanging.ts';
import { kafkaRows } from './kafka.ts';
import { nastyAnswersRow } from './nasty-answers.ts';
import { postgresRow } from './postgres.ts';
import { processingRow } from './processing.ts';
import { sigkillRows } from './sigkill.ts';

/** The suite, in the order in which it is run and printed. */
export const ROWS: readonly Row[] = [
  ...sigkillRows,
  postgresRow,
  ...kafkaRows,
  frozenWorkerRow,
  ...hangingRows,
  crashLoopRow,
  dependenciesRow,
  nastyAnswersRow,
  ...clockRows,
  processingRow,
  ...backlogRows,
];
