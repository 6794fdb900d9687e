import { type OpenStack, openTestStack, type StackUser } from '../stack.ts';

/** The stack that all tests of a run share (`npm run test:mcp`). Resets its limits. */
export async function sharedStack(): Promise<OpenStack> {
  const path = process.env.TEST_STACK_FILE;
  if (!path) throw new Error('TEST_STACK_FILE is set by test/kit/jest/global-mcp-setup.ts');
  const stack = await openTestStack(path);
  await stack.control('POST', '/limits/reset');
  return stack;
}

/** The user with this name in the stack file. */
export function personOf(stack: OpenStack, name: string): StackUser {
  const person = stack.file.users.find((one) => one.name === name);
  if (!person) throw new Error(`the stack has no user ${name}`);
  return person;
}

/** A token of this user for a shop, from the stack file. */
export function tokenOf(stack: OpenStack, name: string, kind: number | string): string {
  const token = personOf(stack, name).mcp_tokens[kind];
  if (!token) throw new Error(`${name} has no token ${kind}`);
  return token;
}
