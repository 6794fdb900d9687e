import type { Permission } from '../tenancy/permissions.ts';

export interface PromptArgument {
  readonly name: string;
  readonly description: string;
  readonly required: boolean;
}

/** A request that a person picks from a menu, and that the assistant then works through. */
export interface Prompt {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  /** Any one of them: without the tools that it leads through, the prompt is of no use. */
  readonly permissions: readonly Permission[];
  readonly arguments: readonly PromptArgument[];
  /** What the person asks. Arguments are texts of the person's own. */
  text(args: Readonly<Record<string, string>>): string;
}
