import { type RequestHandler, Router } from 'express';
import { bodyArrived } from '../../../gateway/http/body-arrived.ts';
import { queryOf } from '../../../gateway/http/query.ts';
import { namesOneOf } from '../../../gateway/oauth/issue.ts';
import { namesOnly } from '../../../gateway/oauth/token-resource.ts';
import { KNOWN_SCOPES } from './scopes.ts';

/**
 * Writes the parameter `resource` as oidc-provider knows it, when it is the only resource in another spelling. Rejects
 * another resource at the token endpoint, before the code is used.
 */
export function resourceRoutes(resource: string): Router {
  const router = Router();
  router.get('/authorize', (req, _res, next) => {
    const query = queryOf(req);
    const resources = query.getAll('resource');
    if (resources.length > 0 && resources.every((one) => namesOneOf([resource], one))) {
      query.set('resource', resource);
      req.url = `/authorize?${query}`;
      req.originalUrl = req.url;
    }
    next();
  });
  // Not a route, because a router itself answers OPTIONS of its routes, and browsers ask oidc-provider with it.
  router.use('/oauth/token', tokenResource(resource));
  return router;
}

function tokenResource(resource: string): RequestHandler {
  return async (req, res, next) => {
    if (req.method !== 'POST') return next();
    await bodyArrived(req);
    if (namesOnly(req, { resource, scopes: KNOWN_SCOPES })) return next();
    const error_description = `the only resource is ${resource}`;
    res.status(400).json({ error: 'invalid_target', error_description });
  };
}
