import { permits, type Role } from '../tenancy/permissions.ts';
import type { Prompt } from './prompt.ts';
import { triageReturns } from './prompts/triage-returns.ts';
import { prepareUpgrade } from './prompts/upgrade.ts';
import { webhookFailure } from './prompts/webhook-failure.ts';

export const PROMPTS: readonly Prompt[] = [triageReturns, webhookFailure, prepareUpgrade];

/** Maximum length of an argument; the prompt contains it. Characters. */
const ARGUMENT_MAX = 200;

/** The prompts that are offered to users with this role. */
export function promptsFor(role: Role): readonly Prompt[] {
  return PROMPTS.filter(({ permissions }) => permits(role, permissions));
}

/** The fault of a prompt's arguments; undefined when they are valid. */
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
