import { CLIENT_INFO_META_KEY } from '@modelcontextprotocol/server';
import type { Queryable } from '../../services/platform/postgres.ts';
import type { SignedIn } from '../oauth/access-token.ts';
import { isLoopback } from '../oauth/clients/redirect-uri.ts';
import { selfNameOf } from '../oauth/clients/self-name.ts';

/**
 * Stores the name that a program on the user's machine gives itself in `initialize`, or in `_meta` of a request. A grant
 * that has a name keeps it.
 */
export async function rememberClientName(
  db: Queryable,
  { shopId, grantId, app, selfName }: SignedIn,
  message: object,
): Promise<void> {
  if (selfName !== null || app === null || !isLoopback(`http://${app}`)) return;
  const name = selfNameOf(clientNameIn(message));
  if (name === undefined) return;
  await db.query(
    'update oauth_grants set self_name = $3 where shop_id = $1 and id = $2 and self_name is null',
    [shopId, grantId, name],
  );
}

function clientNameIn(message: object): unknown {
  const params: unknown = Reflect.get(message, 'params');
  const { clientInfo, _meta } = Object(params);
  return Object(clientInfo ?? Object(_meta)[CLIENT_INFO_META_KEY]).name;
}
