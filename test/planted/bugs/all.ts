import type { Bug } from '../bug.ts';
import { amountBugs } from './amounts.ts';
import { assistantBugs } from './assistants.ts';
import { clockBugs } from './clock.ts';
import { consumerBugs } from './consumer.ts';
import { edgeBugs } from './edge.ts';
import { failoverBugs } from './failover.ts';
import { formBugs } from './forms.ts';
import { importBugs } from './import.ts';
import { inboundBugs } from './inbound.ts';
import { jobBugs } from './jobs.ts';
import { lookUpBugs } from './look-up.ts';
import { matchingBugs } from './matching.ts';
import { outboxBugs } from './outbox.ts';
import { recordingBugs } from './recording.ts';
import { replicaBugs } from './replicas.ts';
import { retryBugs } from './retries.ts';
import { ruleBugs } from './rules.ts';
import { sendingBugs } from './sending.ts';
import { shopperBugs } from './shoppers.ts';
import { sweepBugs } from './sweep.ts';
import { tokenBugs } from './tokens.ts';
import { unitBugs } from './units.ts';

/** All bugs: first along the path from a change to its receiver, then of the HTTP layer, of the rules and of commerce. */
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
  ...unitBugs,
  ...amountBugs,
  ...lookUpBugs,
  ...importBugs,
  ...inboundBugs,
  ...failoverBugs,
  ...clockBugs,
  ...tokenBugs,
  ...assistantBugs,
  ...formBugs,
  ...shopperBugs,
];
