import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '../../../deploy/local/free-ports.ts';
import { call, type Peer } from './peer.ts';
import { untilListening } from './programs.ts';

const run = promisify(execFile);

/** The Svix server (svix/svix-webhooks), Redis and PostgreSQL. */
export const svix: Peer = {
  name: 'Svix',
  api: 'svix',
  needs: ['svix-server', 'redis-server'],
  receivers: { names: { id: 'webhook-id', length: 'Content-Length' } },
  async start(programs, { bin, folder, concurrency }) {
    // The queue is kept on disk, as the configuration of Svix advises.
    const [postgres, redis] = [
      await programs.postgres(),
      await programs.redis(['--appendonly', 'yes']),
    ];
    const port = await freePort();
    const settings = {
      SVIX_LISTEN_ADDRESS: `127.0.0.1:${port}`,
      SVIX_DB_DSN: postgres,
      SVIX_REDIS_DSN: `redis://127.0.0.1:${redis}`,
      SVIX_QUEUE_TYPE: 'redis',
      SVIX_CACHE_TYPE: 'memory',
      SVIX_JWT_SECRET: randomBytes(16).toString('hex'),
      SVIX_WHITELABEL_HEADERS: 'true',
      SVIX_WHITELIST_SUBNETS: '["127.0.0.0/8"]',
      SVIX_WORKER_MAX_TASKS: concurrency,
    };
    const command = (args: readonly string[]) =>
      run(join(bin, 'svix-server'), [...args], { env: settings, cwd: folder });
    await command(['migrate']);
    const { stdout } = await command(['jwt', 'generate']);
    programs.start('svix-server', [], settings);
    await untilListening(port);
    const token = stdout.trim().split(' ').at(-1) ?? '';
    return { origin: `http://127.0.0.1:${port}`, token };
  },
  async subscribe(server, tenant, url) {
    await call(server, 'POST', '/api/v1/app/', { name: tenant, uid: tenant });
    await call(server, 'POST', `/api/v1/app/${tenant}/endpoint/`, { url, version: 1 });
  },
};
