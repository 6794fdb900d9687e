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
];
