import { permits, type Role } from '../tenancy/permissions.ts';
import type { Prompt } from './prompt.ts';
import { triageReturns } from './prompts/triage-returns.ts';
import { prepareUpgrade } from './prompts/upgrade.ts';
import { webhookFailure } from './prompts/webhook-failure.ts';

export const PROMPTS: readonly Prompt[] = [triageReturns, webhookFailure, prepareUpgrade];

/** Characters of an argument; it comes back inside the prompt. */
const ARGUMENT_MAX = 200;

/** The prompts that somebody of that role is offered. */
export function promptsFor(role: Role): readonly Prompt[] {
  return PROMPTS.filter(({ permissions }) => permits(role, permissions));
}

/** What is wrong with the arguments of a prompt; undefined when nothing is. */
export function promptFault(
  prompt: Prompt,
  args: Readonly<Record<string, string>>,
): string | undefined {
  const names = new Set(prompt.arguments.map(({ name }) => name));
  for (const [name, value] of Object.entries(args)) {
    if (!names.has(name)) return 'unknown argument';
    if (value.length > ARGUMENT_MAX) return `${name} must be at most ${ARGUMENT_MAX} characters`;
  }
  const missing = prompt.arguments.find(({ name, required }) => required && !args[name]);
  return missing && `${missing.name} is required`;
}
