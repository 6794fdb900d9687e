import type { IncomingMessage } from 'node:http';
import { namesOneOf } from './issue.ts';

/**
 * Whether each `resource` of the form is this one. Writes it into the form as oidc-provider knows it. Otherwise the
 * request must be rejected here, because oidc-provider rejects it only after it has used the code.
 *
 * `receiveForm` has waited for the form, and this puts it back for oidc-provider.
 *
 * @param o.addresses other names of the resource.
 * @param o.scope the only scope, when there is only one. Scopes of other servers beside it are ignored, as in an
 *   authorization request.
 */
export function namesOnly(
  req: IncomingMessage,
  o: { readonly resource: string; readonly addresses?: readonly string[]; readonly scope?: string },
): boolean {
  const sent: unknown = req.complete ? req.read() : null;
  if (!Buffer.isBuffer(sent)) return true;
  const form = new URLSearchParams(sent.toString());
  const resources = form.getAll('resource').filter((one) => one !== '');
  const addresses = [o.resource, ...(o.addresses ?? [])];
  if (resources.some((one) => !namesOneOf(addresses, one))) return false;
  if (resources.length > 0) form.set('resource', o.resource);
  const hasScope = o.scope !== undefined && form.get('scope')?.split(' ').includes(o.scope);
  if (hasScope) form.set('scope', o.scope);
  const bytes = resources.length > 0 || hasScope ? Buffer.from(form.toString()) : sent;
  req.unshift(bytes);
  req.headers['content-length'] = String(bytes.length);
  return true;
}
