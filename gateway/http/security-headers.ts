import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import helmet from 'helmet';

/** Everything but pages is data, which no browser has to do anything with. */
const protect = helmet({
  contentSecurityPolicy: {
    useDefaults: false,
    directives: { defaultSrc: ["'none'"], frameAncestors: ["'none'"] },
  },
});

/**
 * The headers that every answer starts with, by name. They depend on nothing, so they are worked out
 * once, on an answer that goes nowhere.
 */
export function securityHeaders(): Map<string, string> {
  const headers = new Map<string, string>();
  const req = new IncomingMessage(new Socket());
  const res = new ServerResponse(req);
  res.setHeader = (name, value) => {
    headers.set(name, String(value));
    return res;
  };
  protect(req, res, (error) => {
    if (error) throw error;
  });
  return headers;
}
