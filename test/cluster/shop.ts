import { PRODUCTION } from './kubectl.ts';

const SCOPES = 'returns,carts,developer_tools,destinations:read,destinations:write';

/** Makes a shop and a key in the production overlay, as an operator does, and returns the key. */
export async function makeKey(...options: readonly string[]): Promise<string> {
  const shop = ['--name', 'Trial', '--currency', 'EUR', '--owner-email', 'trial@example.com'];
  await admin('shop', 'create', '--sandbox', ...shop);
  return (await admin('key', 'create', '--shop', '1', '--scopes', SCOPES, ...options)).trim();
}

function admin(...args: readonly string[]): Promise<string> {
  const command = ['node', 'gateway/admin/main.ts', ...args];
  return PRODUCTION.kubectl('exec', 'deployment/gateway', '-c', 'server', '--', ...command);
}
