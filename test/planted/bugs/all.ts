import type { Bug } from '../bug.ts';
import { consumerBugs } from './consumer.ts';
import { edgeBugs } from './edge.ts';
import { jobBugs } from './jobs.ts';
import { matchingBugs } from './matching.ts';
import { outboxBugs } from './outbox.ts';
import { recordingBugs } from './recording.ts';
import { replicaBugs } from './replicas.ts';
import { retryBugs } from './retries.ts';
import { ruleBugs } from './rules.ts';
import { sendingBugs } from './sending.ts';
import { sweepBugs } from './sweep.ts';

/** All of them: along the way of a change to its receiver, then those at the HTTP edge and in rules. */
export const BUGS: readonly Bug[] = [
  ...outboxBugs,
  ...consumerBugs,
  ...sweepBugs,
  ...matchingBugs,
  ...replicaBugs,
  ...sendingBugs,
  ...recordingBugs,
  ...retryBugs,
  ...jobBugs,
  ...edgeBugs,
  ...ruleBugs,
];
