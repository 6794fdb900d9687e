import type { IncomingMessage } from 'node:http';
import { mcpResource, namesMcp } from './issue.ts';

/**
 * Whether each `resource` of the form is the MCP server. Writes it into the form as oidc-provider knows it. Otherwise
 * the request must be rejected here, because oidc-provider rejects it only after it has used the code.
 *
 * `receiveForm` has waited for the form, and this puts it back for oidc-provider.
 */
export function namesOnlyMcp(req: IncomingMessage, issuer: string): boolean {
  const sent: unknown = req.complete ? req.read() : null;
  if (!Buffer.isBuffer(sent)) return true;
  const form = new URLSearchParams(sent.toString());
  const resources = form.getAll('resource').filter((one) => one !== '');
  if (resources.some((one) => !namesMcp(issuer, one))) return false;
  if (resources.length > 0) form.set('resource', mcpResource(issuer));
  const bytes = resources.length > 0 ? Buffer.from(form.toString()) : sent;
  req.unshift(bytes);
  req.headers['content-length'] = String(bytes.length);
  return true;
}
