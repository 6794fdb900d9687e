import type { RequestHandler, Router } from 'express';
import { methodNotAllowed } from '../errors.ts';

/** Options of routers: paths are case-sensitive and have no trailing slash. */
export const EXACT_PATHS = { caseSensitive: true, strict: true } as const;

const METHODS = ['GET', 'POST', 'PUT', 'DELETE'] as const;
type Method = (typeof METHODS)[number];

export type Endpoint = { readonly [M in Method]?: readonly RequestHandler[] } & {
  /** Middleware that runs before the handler of every method. */
  readonly before?: readonly RequestHandler[];
};

/**
 * Registers one path. Express serves HEAD as GET. This function adds what Express lacks: OPTIONS returns the allowed
 * methods, and other methods get 405 with `Allow`.
 */
export function endpoint(router: Router, path: string, o: Endpoint): void {
  const methods = METHODS.filter((method) => o[method]);
  const allow = [...methods, ...(o.GET ? ['HEAD'] : []), 'OPTIONS'].join(', ');
  const route = router.route(path);
  if (o.before) route.all(...o.before);
  if (o.GET) route.get(...o.GET);
  if (o.POST) route.post(...o.POST);
  if (o.PUT) route.put(...o.PUT);
  if (o.DELETE) route.delete(...o.DELETE);
  route.options((_req, res) => void res.status(204).setHeader('Allow', allow).end());
  route.all(() => {
    throw methodNotAllowed(allow);
  });
}
