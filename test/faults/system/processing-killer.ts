import { writeFile } from 'node:fs/promises';
import { constants, setPriority } from 'node:os';
import { startPostgres } from '../../../deploy/local/postgres/start.ts';
import { createPool } from '../../../services/platform/postgres/postgres.ts';
import { startBadEndpoint } from '../../kit/processing-kills/endpoint.ts';
import { type KillReport, killProcessing } from '../../kit/processing-kills/run.ts';
import {
  FORGETFUL_SHOPIFY_SCENARIOS,
  startBadShopify,
} from '../../kit/processing-kills/shopify.ts';
import { randomOf } from '../../kit/random.ts';
import { freshDatabase } from './fresh-database.ts';

// Kills processing at its awaits, in a separate process. It is forked with a folder, a number of points, a seed and a
// provider, and reports its progress. It runs with the lowest priority.

export type FromKiller =
  | { readonly kind: 'progress'; readonly done: number }
  | { readonly kind: 'report'; readonly report: KillReport }
  | { readonly kind: 'failed'; readonly reason: string };

/** The embedded provider; an endpoint over HTTP, or a Shopify shop, that remembers or forgets keys. */
export type KilledProvider =
  | 'embedded'
  | 'remembers'
  | 'forgets'
  | 'shopify-remembers'
  | 'shopify-forgets';

const POOL_MAX = 10;
const PASSWORD = 'of a private database';

const tell = (message: FromKiller): void => void process.send?.(message);
const [folder = '', points = '', seed = '', provider = ''] = process.argv.slice(2);
// The parent has exited, or has the result.
process.once('disconnect', () => process.exit());

setPriority(constants.priority.PRIORITY_LOW);
const start = () => startPostgres({ folder, durable: false });
// At this priority the first start may take too long on a busy machine.
const server = await start().catch(start);
// The server is in a separate session, which Linux may schedule as one unit, with its own priority.
const lowest = String(constants.priority.PRIORITY_LOW);
await writeFile(`/proc/${server.pid}/autogroup`, lowest).catch(() => {});
// The parent removes the folder when it has the result, so the server must stop before.
const last = await kill(server.url).catch(failed);
await server.stop();
tell(last);

async function kill(serverUrl: string): Promise<FromKiller> {
  const url = await freshDatabase({ serverUrl, schema: 'returns', password: PASSWORD });
  const pool = createPool(url, { max: POOL_MAX, applicationName: 'faults-processing' });
  const isShopify = provider.startsWith('shopify-');
  const startBad = isShopify ? startBadShopify : startBadEndpoint;
  const endpoint =
    provider === 'embedded'
      ? undefined
      : await startBad({ random: randomOf(Number(seed)), forgets: provider.endsWith('forgets') });
  try {
    const report = await killProcessing({
      pool,
      ...(endpoint && { commerce: endpoint }),
      ...(provider === 'shopify-forgets' && { scenarios: FORGETFUL_SHOPIFY_SCENARIOS }),
      points: Number(points),
      seed: Number(seed),
      onProgress: (done) => tell({ kind: 'progress', done }),
    });
    return { kind: 'report', report };
  } finally {
    await endpoint?.stop();
    await pool.end();
  }
}

function failed(error: unknown): FromKiller {
  const reason = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return { kind: 'failed', reason };
}
