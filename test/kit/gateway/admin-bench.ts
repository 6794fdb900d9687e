import { connectServices } from '../../../gateway/services.ts';
import { staticIdentity } from '../../../services/platform/security/identity.ts';
import { startFakeBackend } from './fake-backend.ts';
import { runAdmin } from './run-admin.ts';
import { startTestGateway, type TestGateway } from './test-gateway.ts';

/** The options of a new shop. */
export const HAT_SHOP = [
  '--name',
  'Hats',
  '--currency',
  'EUR',
  '--owner-email',
  'hats@example.com',
];

/** The database of a gateway and fakes of the services, for admin commands and the code that they call. */
export async function startAdminBench() {
  const gateway: TestGateway = await startTestGateway();
  const backend = await startFakeBackend();
  const { services, close } = connectServices(backend.targets, {
    identity: staticIdentity('test-token-of-32-characters-or-more'),
  });
  const { pool } = gateway.database;
  const admin = (...words: string[]) => runAdmin({ pool, services }, words);
  return {
    gateway,
    pool,
    backend,
    services,
    /** Runs a command and returns the lines that it printed. */
    admin,
    /** Creates the shop "Hats", once. Returns its id. */
    async hatShop(): Promise<string> {
      const [line] = await admin('shop', 'create', ...HAT_SHOP);
      return /^shop (\d+) "Hats" \(EUR\)$/.exec(line ?? '')?.[1] ?? '';
    },
    async stop(): Promise<void> {
      close();
      await backend.stop();
      await gateway.stop();
    },
  };
}

export type AdminBench = Awaited<ReturnType<typeof startAdminBench>>;
