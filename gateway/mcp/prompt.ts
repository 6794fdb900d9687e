import type { Permission } from '../tenancy/permissions.ts';

export interface PromptArgument {
  readonly name: string;
  readonly description: string;
  readonly required: boolean;
}

/** A prepared request that a person selects from a menu and the assistant then carries out. */
export interface Prompt {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  /** The prompt is offered to users with any of these permissions, because its steps need their tools. */
  readonly permissions: readonly Permission[];
  readonly arguments: readonly PromptArgument[];
  /** The text of the request. The arguments are written by the person. */
  text(args: Readonly<Record<string, string>>): string;
}
