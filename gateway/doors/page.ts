import type { DescService } from '@bufbuild/protobuf';
import type { OperationId } from '../../services/contract/operation.ts';
import { OPERATIONS } from '../../services/contract/operations.ts';
import { INTERNAL_CALLERS, mayCall } from '../../services/platform/grpc/callers.ts';
import { type Doors, HOLES, type Hole } from './door.ts';
import { DOORS, OWN_DOORS } from './doors.ts';

/** The page of all operations and their doors, generated from the tables that the tests check. */
export function doorsPage(): string {
  return [
    '# Operations and their doors',
    '',
    'For partners, users of assistants, operators and reviewers. A *door* is a way to call an operation of the service:',
    'the REST API, a tool of the MCP server, or an admin command. The tables show the doors of each operation, and why a',
    'door is missing. A word in *italics* is the reason, which the first table explains. The last column names the',
    'internal services that may call the RPC ([internal-services.md](internal-services.md)).',
    '',
    '`npm run docs` generates this page; do not edit it. A test compares the page with the operations of REST, the tools',
    'of the MCP server, the admin commands, and the calls that they make.',
    '',
    '## Reasons',
    '',
    '| Reason | Meaning |',
    '|---|---|',
    ...Object.entries(HOLES).map(([hole, text]) => `| *${hole}* | ${text} |`),
    '',
    ...DOORS.flatMap(({ service, rpcs }) => section(service, rpcs)),
    '## The gateway itself',
    '',
    'These operations use tables of the gateway, and call no service.',
    '',
    '| What | REST | Assistants (MCP) | Admin command |',
    '|---|---|---|---|',
    ...OWN_DOORS.map(({ what, doors }) => `| ${what} | ${cellsOf(doors).join(' | ')} |`),
    '',
  ].join('\n');
}

function section(service: DescService, rpcs: Readonly<Record<string, Doors>>): string[] {
  return [
    `## ${service.name}`,
    '',
    '| RPC | REST | Assistants (MCP) | Admin command | Internal services |',
    '|---|---|---|---|---|',
    ...service.methods.map((method) => {
      const doors = rpcs[method.localName];
      if (!doors) throw new Error(`no doors of ${method.name}`);
      const internal = INTERNAL_CALLERS.filter((caller) => mayCall(caller, service, method));
      return `| ${method.name} | ${cellsOf(doors).join(' | ')} | ${internal.join(', ')} |`;
    }),
    '',
  ];
}

function cellsOf({ rest, mcp, admin }: Doors): string[] {
  return [cell(rest, restName), cell(mcp, code), cell(admin, code)];
}

function cell<T extends string>(door: readonly T[] | Hole, nameOf: (name: T) => string): string {
  return typeof door === 'string' ? `*${door}*` : door.map(nameOf).join(', ');
}

function restName(id: OperationId): string {
  const operation = OPERATIONS.find((one) => one.id === id);
  if (!operation) throw new Error(`no operation ${id}`);
  return code(`${operation.method} ${operation.path}`);
}

function code(text: string): string {
  return `\`${text}\``;
}
