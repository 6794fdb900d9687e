import type { IncomingMessage } from 'node:http';
import { bearerOf } from '../../auth/bearer.ts';
import { namesOneOf } from './issue.ts';

/**
 * Removes an `Authorization` header that authenticates no client, because oidc-provider would reject it: an access token,
 * which some HTTP clients add to every request, or a client id with an empty secret, which is a public client (RFC 6749,
 * 2.3.1). Returns this client id.
 */
export function takePublicClient({ headers }: IncomingMessage): string | undefined {
  const { authorization = '' } = headers;
  const [, basic = ''] = /^Basic +(\S+)$/i.exec(authorization) ?? [];
  const [, id] = /^(.+):$/.exec(Buffer.from(basic, 'base64').toString()) ?? [];
  if (id !== undefined || bearerOf(authorization) !== undefined) delete headers.authorization;
  return id === undefined ? undefined : (new URLSearchParams(`id=${id}`).get('id') ?? undefined);
}

/**
 * Whether each `resource` of the form is this one. Writes it into the form as oidc-provider knows it. Otherwise the
 * request must be rejected here, because oidc-provider rejects it only after it has used the code.
 *
 * `receiveForm` has waited for the form, and this puts it back for oidc-provider.
 *
 * @param o.addresses other names of the resource.
 * @param o.scopes the scopes of this server. Those of other servers beside them are ignored, as in an authorization
 *   request.
 * @param o.clientId for a form without a client id.
 */
export function namesOnly(
  req: IncomingMessage,
  o: {
    readonly resource: string;
    readonly addresses?: readonly string[];
    readonly scopes: readonly string[];
    readonly clientId?: string | undefined;
  },
): boolean {
  const sent: unknown = req.complete ? req.read() : null;
  if (!Buffer.isBuffer(sent)) return true;
  const form = new URLSearchParams(sent.toString());
  const resources = form.getAll('resource').filter((one) => one !== '');
  const addresses = [o.resource, ...(o.addresses ?? [])];
  if (resources.some((one) => !namesOneOf(addresses, one))) return false;
  if (resources.length > 0) form.set('resource', o.resource);
  const own = (form.get('scope') ?? '').split(' ').filter((scope) => o.scopes.includes(scope));
  if (own.length > 0) form.set('scope', own.join(' '));
  const isWithoutClient = o.clientId !== undefined && !form.has('client_id');
  if (isWithoutClient) form.set('client_id', o.clientId);
  const isChanged = resources.length > 0 || own.length > 0 || isWithoutClient;
  const bytes = isChanged ? Buffer.from(form.toString()) : sent;
  req.unshift(bytes);
  req.headers['content-length'] = String(bytes.length);
  return true;
}
