import { setTimeout as sleep } from 'node:timers/promises';
import { createEmbeddedCommerce } from '../../../services/commerce/embedded.ts';
import type { CommerceProvider } from '../../../services/commerce/provider.ts';
import { createRequestWatch } from '../../../services/commerce/request-watch.ts';
import { createPool } from '../../../services/platform/postgres/postgres.ts';
import { runJob } from '../../../services/returns/processing/run.ts';
import { startProcessingWorker } from '../../../services/returns/processing/worker.ts';
import { destinations, onlyProvider, silent } from '../services/processing.ts';
import { changeDeps } from '../services/return-stores.ts';

// A replica of processing, for tests that kill it:
// `node worker-process.ts <database url> <maximum ms of a call> <s before a retry>`.

const [, , databaseUrl = '', callMs = '0', retryS = '0'] = process.argv;
const pool = createPool(databaseUrl, { max: 8 });
const embedded = createEmbeddedCommerce(pool);

/** Delays each call of the provider, so that kills interrupt calls. */
async function delayed<T>(call: () => Promise<T>): Promise<T> {
  await sleep(Math.random() * Number(callMs));
  return call();
}

const commerce: CommerceProvider = {
  ...embedded,
  create: (request, signal) => delayed(() => embedded.create(request, signal)),
};

const retryBackoff = () => Number(retryS) * 1_000;
const providers = onlyProvider(commerce);
const watch = createRequestWatch();
const deps = { ...changeDeps(pool), providers, destinations, retryBackoff, watch };
startProcessingWorker({ pool, logger: silent, run: (job, signal) => runJob(deps, job, signal) });
process.stdout.write('ready\n');
