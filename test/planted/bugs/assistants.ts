import type { Bug } from '../bug.ts';

/** Bugs in what assistants may send, and in their sign-in. */
export const assistantBugs: readonly Bug[] = [
  {
    name: 'json-text-in-text',
    promise: 'a text argument that looks like JSON stays text',
    file: 'gateway/mcp/arguments.ts',
    find: 'if (schema instanceof z.ZodString) return',
    replace:
      "if (schema instanceof z.ZodString) return typeof value === 'string' ? json(value) ?? value :",
    tests: ['gateway/mcp/arguments.test.ts'],
  },
  {
    name: 'initialize-internal-error',
    promise: 'wrong parameters of initialize are -32602',
    file: 'gateway/mcp/router.ts',
    find: 'parametersError(message) ?? ',
    replace: '',
    tests: ['gateway/mcp/clients.test.ts'],
  },
  {
    name: 'refused-resource-uses-code',
    promise: 'a rejected resource uses up neither a code nor a refresh token',
    file: 'gateway/oauth/sign-in-routes.ts',
    find: 'if (!namesOnly(req, { resource, addresses: [o.issuer], scope: MCP_SCOPE })) {',
    replace:
      'if (!namesOnly(req, { resource, addresses: [o.issuer], scope: MCP_SCOPE }) && !resource) {',
    tests: ['gateway/oauth/token-resource.test.ts'],
  },
  {
    name: 'unknown-choice-allows-everything',
    promise: 'the consent form rejects unknown choices',
    file: 'gateway/oauth/consent.ts',
    find: 'z.enum(ACCESS).default(ACCESS.everything)',
    replace: 'z.enum(ACCESS).catch(ACCESS.everything)',
    tests: ['gateway/oauth/read-only.test.ts'],
  },
  {
    name: 'unknown-choice-allows-partner',
    promise: 'the consent form of partner apps rejects unknown choices',
    file: 'deploy/local/identity/granting.ts',
    find: "if (req.body?.consent !== 'allow') return",
    replace: "if (req.body?.consent === 'none') return",
    tests: ['deploy/local/identity/consent.test.ts'],
  },
  {
    name: 'partner-resource-loop',
    promise: 'the resource of a partner app may be in any spelling',
    file: 'deploy/local/identity/start.ts',
    find: '  app.use(resourceRoutes(identity.resource));\n',
    replace: '',
    tests: ['deploy/local/identity/tokens.test.ts'],
  },
  {
    name: 'registration-without-hint',
    promise: 'a registration whose redirect URIs are all unsupported gets a hint',
    file: 'gateway/oauth/router.ts',
    find: 'if (hint !== undefined) addHint(res, hint);',
    replace: '',
    tests: ['gateway/oauth/metadata.test.ts'],
  },
  {
    name: 'address-without-hint',
    promise: '/mcp/, /sse and / name the address of the MCP server',
    file: 'gateway/app.ts',
    find: '    addMcpHint(req, res, deps.publicUrl);\n',
    replace: '',
    tests: ['gateway/mcp/clients.test.ts'],
  },
  {
    name: 'search-as-stored',
    promise: 'searches find composed and decomposed characters',
    file: 'services/returns/queries/search-input.ts',
    find: 'query: text(SEARCH_TEXT_MAX).transform(normalForm)',
    replace: 'query: text(SEARCH_TEXT_MAX)',
    tests: ['services/returns/queries/search-texts.test.ts'],
  },
  {
    name: 'brackets-ignored',
    promise: 'state[]=open means state=open',
    file: 'services/contract/resources/query.ts',
    find: "name.replace(/\\[\\d{0,4}\\]$/, '')",
    replace: 'name',
    tests: ['services/contract/validate-query.test.ts'],
  },
  {
    name: 'mistyped-filter-ignored',
    promise: 'the version unstable rejects a filter with a mistyped name',
    file: 'gateway/rest/read-request.ts',
    find: 'if (mistyped) {',
    replace: 'if (mistyped && version !== UNSTABLE) {',
    tests: ['gateway/rest/help.test.ts'],
  },
  {
    name: 'name-like-a-host',
    promise:
      'an assistant that calls itself like the host of a known app is not shown by that name',
    file: 'gateway/oauth/clients/self-name.ts',
    find: ' && !HOST.test(name)',
    replace: '',
    tests: ['gateway/oauth/self-name.test.ts'],
  },
];
