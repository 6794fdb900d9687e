import { countTokens } from 'gpt-tokenizer/encoding/o200k_base';
import { permissionsFor } from '../../actions/permissions.ts';
import { ROLE_PERMISSIONS, ROLES } from '../../tenancy/permissions.ts';
import { createCatalogue, isPermitted } from '../catalogue.ts';
import { INSTRUCTIONS } from '../instructions.ts';
import { argumentRules } from '../json-schema.ts';
import { PROMPTS } from '../prompts.ts';
import { PRIVATE_LIST } from '../server.ts';
import type { Hint, Tool } from '../tool.ts';
import { TOOLS } from '../tools.ts';

/** The number of tokens of the result of `tools/list` for an owner. `gateway/mcp/weight.test.ts` checks the limit. */
const TOKENS = countTokens(
  JSON.stringify({ tools: createCatalogue().owner, ...PRIVATE_LIST }),
).toLocaleString('en');

/** The documentation page of all tools, generated from the definitions that the server uses. */
export function toolsPage(): string {
  const tools = Object.values(TOOLS);
  return [
    '# Tools of the MCP server',
    '',
    'For users of assistants and reviewers: which tools there are, who may use them, and what they do. This page is',
    'generated from the definitions that the server uses.',
    '',
    '## Who may use what',
    '',
    'A user needs one of the listed permissions to use a tool. Otherwise the tool is not listed, and a call is denied.',
    'A user has one role in each shop. Owners and admins set it in the portal, under *Team and roles*. A change applies',
    'from the next call on.',
    '',
    `| Tool | Any one of | ${ROLES.join(' | ')} |`,
    `|---|---|${ROLES.map(() => '---|').join('')}`,
    ...tools.map(roleRow),
    '',
    '| Role | Permissions |',
    '|---|---|',
    ...ROLES.map((role) => `| ${role} | ${ROLE_PERMISSIONS[role].join(', ')} |`),
    '',
    '## Hints and their reasons',
    '',
    '| Tool | Reads only | Destructive | Idempotent | Open world |',
    '|---|---|---|---|---|',
    ...tools.map(({ name, hints }) => {
      const cells = [hints.readOnly, hints.destructive, hints.idempotent, hints.openWorld];
      return `| \`${name}\` | ${cells.map(hintCell).join(' | ')} |`;
    }),
    '',
    '## The tools',
    '',
    `Assistants read all of them in each conversation: ${TOKENS} tokens (o200k_base) for an owner. The limit is 9,000.`,
    '',
    ...tools.flatMap(toolSection),
    '## Prompts',
    '',
    ...PROMPTS.map(
      ({ name, title, description, permissions }) =>
        `- **${title}** (\`${name}\`): ${description} Needs ${permissions.join(' or ')}.`,
    ),
    '',
    '## Instructions for assistants',
    '',
    ...INSTRUCTIONS.split('\n').map((line) => (line === '' ? '>' : `> ${line}`)),
    '',
  ].join('\n');
}

function roleRow(tool: Tool): string {
  const permissions = permissionsFor(tool.name);
  const needs = permissions.length === 0 ? 'none: any signed-in user' : permissions.join(', ');
  const cells = ROLES.map((role) => (isPermitted(role, tool) ? 'yes' : '—'));
  return `| \`${tool.name}\` | ${needs} | ${cells.join(' | ')} |`;
}

function hintCell({ is, because }: Hint): string {
  return `${is ? '**yes**' : 'no'}. ${because}`;
}

type Schema = Readonly<Record<string, unknown>>;

function toolSection(tool: Tool): string[] {
  const schema: Schema = argumentRules(tool.input);
  const required = new Set<unknown>(Array.isArray(schema.required) ? schema.required : []);
  const rows = Object.entries(Object(schema.properties)).map(([name, property]) => {
    const { description = '', ...rest }: Schema = Object(property);
    const must = required.has(name) ? 'yes' : 'no';
    return `| \`${name}\` | ${ruleOf(rest)} | ${must} | ${description} |`;
  });
  return [
    `### \`${tool.name}\`: ${tool.title}`,
    '',
    tool.description,
    '',
    ...(rows.length === 0
      ? ['Takes no arguments.']
      : ['| Argument | Rule | Required | Meaning |', '|---|---|---|---|', ...rows]),
    '',
  ];
}

/** A short description of the rule for a value. */
function ruleOf(schema: Schema): string {
  const { type, default: preset, items } = schema;
  const bounds = [
    ['from', schema.minimum],
    ['to', schema.maximum],
    ['at most', schema.maxLength, 'characters'],
    ['at most', schema.maxItems, 'entries'],
    ['at most', schema.maxProperties, 'values'],
  ].flatMap(([word, value, unit]) =>
    value === undefined ? [] : [`${word} ${value}${unit ? ` ${unit}` : ''}`],
  );
  const parts = [
    Array.isArray(schema.enum)
      ? schema.enum.map((value) => `\`${value}\``).join(', ')
      : String(type),
    ...(schema.format === undefined ? [] : [String(schema.format)]),
    ...bounds,
    ...(items === undefined ? [] : [`each: ${ruleOf(Object(items))}`]),
    ...(preset === undefined ? [] : [`default \`${preset}\``]),
    ...fieldsOf(schema),
  ];
  return parts.join('; ');
}

function fieldsOf(schema: Schema): string[] {
  const names = Object.keys(Object(schema.properties));
  return names.length === 0 ? [] : [`of ${names.map((name) => `\`${name}\``).join(', ')}`];
}
