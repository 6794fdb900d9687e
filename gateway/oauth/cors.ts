import type { RequestHandler } from 'express';
import { HINT } from '../http/help-headers.ts';

/** Allows scripts of any origin to call an endpoint that uses no cookies (CORS). */
export function allowAnyOrigin(method: 'GET' | 'POST'): RequestHandler {
  return (req, res, next) => {
    res.setHeader('Access-Control-Allow-Origin', '*');
    res.setHeader('Access-Control-Expose-Headers', `Retry-After, WWW-Authenticate, ${HINT}`);
    if (req.method === 'OPTIONS') {
      res.setHeader('Access-Control-Allow-Methods', method);
      // The wildcard does not cover Authorization, so it is named (Fetch, 3.3.4).
      res.setHeader('Access-Control-Allow-Headers', 'Authorization, *');
      res.setHeader('Access-Control-Max-Age', '3600');
    }
    next();
  };
}
