import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '../../../deploy/local/free-ports.ts';
import { call, type Peer, TOPIC } from './peer.ts';
import { untilListening } from './programs.ts';

const run = promisify(execFile);
const secret = () => randomBytes(16).toString('hex');

/** Outpost (hookdeck/outpost) with all its parts in one process, Redis, RabbitMQ and PostgreSQL. */
export const outpost: Peer = {
  name: 'Outpost',
  api: 'outpost',
  needs: ['outpost', 'outpost-server', 'redis-server', 'rabbitmq-server', 'epmd'],
  receivers: { names: { id: 'Webhook-Id', length: 'Content-Length' } },
  async start(programs, { bin, concurrency }) {
    const [postgres, redis, rabbitmq] = [
      await programs.postgres(),
      await programs.redis(),
      await programs.rabbitmq(),
    ];
    const [port, token] = [await freePort(), secret()];
    const settings = {
      API_PORT: String(port),
      PORT: String(port),
      API_KEY: token,
      TOPICS: TOPIC,
      API_JWT_SECRET: secret(),
      AES_ENCRYPTION_SECRET: secret(),
      REDIS_HOST: '127.0.0.1',
      REDIS_PORT: String(redis),
      POSTGRES_URL: `${postgres}?sslmode=disable`,
      RABBITMQ_SERVER_URL: `amqp://guest:guest@127.0.0.1:${rabbitmq}`,
      // By default it sends one delivery after the other.
      DELIVERY_MAX_CONCURRENCY: concurrency,
      LOG_MAX_CONCURRENCY: concurrency,
      DESTINATIONS_WEBHOOK_MODE: 'standard',
      DISABLE_TELEMETRY: 'true',
      LOG_LEVEL: 'warn',
      PORTAL_REFERER_URL: 'http://127.0.0.1',
    };
    await run(join(bin, 'outpost'), ['migrate', 'apply', '--yes'], { env: settings });
    programs.start('outpost-server', [], settings);
    await untilListening(port);
    return { origin: `http://127.0.0.1:${port}`, token };
  },
  async subscribe(server, tenant, url) {
    const path = `/api/v1/tenants/${tenant}`;
    await call(server, 'PUT', path);
    await call(server, 'POST', `${path}/destinations`, {
      type: 'webhook',
      topics: [TOPIC],
      config: { url },
    });
  },
};
