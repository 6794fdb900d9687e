import type { Tool as ListedTool } from '@modelcontextprotocol/server';
import { hasRight } from '../actions/rights.ts';
import { ROLES, type Role } from '../tenancy/permissions.ts';
import { listedArguments, listedResult } from './schema/json-schema.ts';
import type { Tool } from './tool.ts';
import { TOOLS } from './tools.ts';

/** The rights of an assistant: the user's role, and whether the user allowed it only to read. */
export interface Rights {
  readonly role: Role;
  readonly isReadOnly: boolean;
}

/** Whether an assistant with these rights may use the tool. */
export function mayUse({ role, isReadOnly }: Rights, tool: Tool): boolean {
  return (!isReadOnly || tool.hints.readOnly.is) && isPermitted(role, tool);
}

/** Whether a user with this role may use the tool. */
export function isPermitted(role: Role, tool: Tool): boolean {
  return hasRight(role, tool.right);
}

/** The result of `tools/list` for each role. */
export type Catalogue = Readonly<Record<Role, readonly ListedTool[]>>;

/**
 * Creates the lists of tools for each role: for assistants with all rights of the role, and for assistants that only
 * read. All are built once, because generating JSON schemas is expensive.
 */
export function createCatalogue(): Catalogue & { readonly readOnly: Catalogue } {
  const listed = new Map(TOOLS.map((tool) => [tool, listedAs(tool)]));
  const of = (isReadOnly: boolean): Catalogue => {
    const entries = ROLES.map((role) => {
      const usable = [...listed].filter(([tool]) => mayUse({ role, isReadOnly }, tool));
      return [role, usable.map(([, entry]) => entry)] as const;
    });
    // `fromEntries` loses the type of the keys. All keys are roles.
    return Object.fromEntries(entries) as Record<Role, ListedTool[]>;
  };
  return { ...of(false), readOnly: of(true) };
}

function listedAs(tool: Tool): ListedTool {
  const { name, title, description, hints } = tool;
  return {
    name,
    // Clients of all protocol revisions find the title in the annotations.
    description,
    inputSchema: listedArguments(tool.input),
    outputSchema: listedResult(tool.output),
    annotations: {
      title,
      readOnlyHint: hints.readOnly.is,
      destructiveHint: hints.destructive.is,
      idempotentHint: hints.idempotent.is,
      openWorldHint: hints.openWorld.is,
    },
  };
}
