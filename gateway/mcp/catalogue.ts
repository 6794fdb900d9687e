import type { Tool as ListedTool } from '@modelcontextprotocol/server';
import { permissionsFor } from '../actions/permissions.ts';
import { permits, ROLES, type Role } from '../tenancy/permissions.ts';
import { objectSchema } from './json-schema.ts';
import type { Tool } from './tool.ts';
import { TOOLS } from './tools.ts';

/** Whether a user with this role may use the tool. */
export function mayUse(role: Role, tool: Tool): boolean {
  const anyOf = permissionsFor(tool.name);
  return anyOf.length === 0 || permits(role, anyOf);
}

/**
 * The result of `tools/list` for each role. It is built once, because generating JSON schemas is expensive.
 */
export function createCatalogue(): Readonly<Record<Role, readonly ListedTool[]>> {
  const listed = new Map(Object.values(TOOLS).map((tool) => [tool, listedAs(tool)]));
  const of = (role: Role) =>
    [...listed].filter(([tool]) => mayUse(role, tool)).map(([, entry]) => entry);
  const entries = ROLES.map((role) => [role, of(role)] as const);
  // `fromEntries` loses the type of the keys. They are all roles.
  return Object.fromEntries(entries) as Record<Role, ListedTool[]>;
}

function listedAs(tool: Tool): ListedTool {
  const { name, title, description, hints } = tool;
  return {
    name,
    title,
    description,
    inputSchema: objectSchema(tool.input, 'input'),
    outputSchema: objectSchema(tool.output, 'output'),
    annotations: {
      title,
      readOnlyHint: hints.readOnly.is,
      destructiveHint: hints.destructive.is,
      idempotentHint: hints.idempotent.is,
      openWorldHint: hints.openWorld.is,
    },
  };
}
