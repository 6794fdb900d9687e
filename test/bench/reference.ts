import express from 'express';
import { returnDetailsView } from '../../services/contract/details/return-details.ts';
import { createPool } from '../../services/platform/postgres/postgres.ts';
import { loadReturns } from '../../services/returns/store/load.ts';
import { BARE_BASELINE, SAME_ROWS_BASELINE } from './compare/baseline.ts';
import { serveParent } from './ipc.ts';

/** The same number of connections as the service that it is compared with. */
const POOL_MAX = 10;
const SHOP_ID = BigInt(process.env.SHOP_ID ?? '0');

/**
 * The reference system: one Express process on the same database, without keys, limits, versions, validation, telemetry
 * or a second process.
 */
async function listen(): Promise<number> {
  const pool = (url = '') => createPool(url, { max: POOL_MAX, applicationName: 'reference' });
  const reads = pool(process.env.READS_URL);
  const writes = pool(process.env.WRITES_URL);
  const app = express();

  // The same statement and the same response as GET return details.
  app.get('/details', async (req, res) => {
    const id = BigInt(String(req.query.return_id));
    const [found] = await loadReturns(reads, SHOP_ID, [id]);
    if (found) res.json(returnDetailsView(found));
    else res.status(404).end();
  });

  // The same statement, but a prepared response.
  let ready: unknown;
  app.get('/details-ready', async (req, res) => {
    const id = BigInt(String(req.query.return_id));
    const [found] = await loadReturns(reads, SHOP_ID, [id]);
    ready ??= found && JSON.stringify(returnDetailsView(found));
    res.type('json').send(ready);
  });

  // One statement. It stores only the content of the call, or every row that the services store.
  const snapshot = Buffer.from(process.env.SNAPSHOT ?? '', 'base64');
  const returnsByLine = new Map<number, number>(JSON.parse(process.env.RETURNS_BY_LINE ?? '[]'));
  const json = express.json({ limit: '1mb' });
  app.post('/assess-bare', json, async (req, res) => {
    const values = [SHOP_ID, JSON.stringify(req.body.items)];
    res.json((await writes.query({ name: 'bare', text: BARE_BASELINE, values })).rows);
  });
  app.post('/assess', json, async (req, res) => {
    const { items } = req.body;
    const returnId = returnsByLine.get(items[0].line_item_id);
    const values = [SHOP_ID, JSON.stringify(items), snapshot, returnId];
    res.json((await writes.query({ name: 'same', text: SAME_ROWS_BASELINE, values })).rows);
  });

  return new Promise((done) => {
    const server = app.listen(0, '127.0.0.1', () => {
      const address = server.address();
      done(typeof address === 'object' && address ? address.port : 0);
    });
  });
}

const methods = { listen: async (_: undefined) => listen() };
export type ReferenceMethods = typeof methods;

serveParent(methods);
