import type { Bug } from '../bug.ts';

/** Bugs in how the gateway speaks HTTP. */
export const edgeBugs: readonly Bug[] = [
  {
    name: 'idle-closed-at-stop',
    promise: 'at a stop an idle connection serves one more request',
    file: 'gateway/http/server.ts',
    find: '  NetServer.prototype.close.call(server);',
    replace: '  server.close();',
    tests: ['gateway/http/connections.test.ts'],
  },
  {
    name: 'stop-not-announced',
    promise: 'from SIGTERM on each response ends its connection',
    file: 'gateway/http/connections.ts',
    find: '      if (isEnding) res.shouldKeepAlive = false;\n',
    replace: '',
    tests: ['gateway/http/connections.test.ts'],
  },
  {
    name: 'unready-without-database',
    promise: 'a gateway without its database answers 503 with Retry-After',
    file: 'gateway/http/probes.ts',
    find: "const ready = schema === 'fits' ||",
    replace: "const ready = (database && schema === 'fits') ||",
    tests: ['gateway/http/probes.test.ts'],
  },
  {
    name: 'path-decoded-twice',
    promise: 'paths are percent-decoded once',
    file: 'gateway/http/exchange.ts',
    find: 'parts.map(encodeURIComponent)',
    replace: 'parts',
    tests: ['gateway/rest/errors.test.ts'],
  },
  {
    name: 'portal-reads-protobuf',
    promise: 'a malformed call of the portal is the fault of the caller, never 5xx',
    file: 'gateway/portal/guard.ts',
    find: "if (!req.is('application/json') ||",
    replace: "if (!req.is(['application/json', 'application/proto']) ||",
    tests: ['gateway/portal/malformed-calls.test.ts'],
  },
];
