import type { ServerResponse } from 'node:http';
import { environmentHeaders } from '../../services/contract/environment.ts';

/**
 * Adds a header to the response for a caller of a sandbox shop. Called as soon as a credential is accepted, so that
 * errors have the header too.
 */
export function markEnvironment(res: ServerResponse, caller: { readonly sandbox: boolean }): void {
  for (const [name, value] of Object.entries(environmentHeaders(caller)))
    res.setHeader(name, value);
}
