import { SERVER_DESCRIPTION, SERVER_NAME, SERVER_TITLE, SERVER_VERSION } from '../identity.ts';
import type { Hint } from '../tool.ts';
import { TOOLS } from '../tools.ts';
import {
  type DirectoryCase,
  EXAMPLE_PROMPTS,
  NEGATIVE_CASES,
  POSITIVE_CASES,
} from './directory-cases.ts';

/** The information that the directories of Claude and ChatGPT require for a listing. */
export function directoryPage(): string {
  return [
    '# For the directories of Claude and ChatGPT',
    '',
    'For the operator who submits the server to a directory. `npm run docs` generates this page from the definitions',
    'that the server uses; do not edit it. The operator adds at submission: company, addresses of the privacy policy and',
    'of support, a test account, screenshots.',
    '',
    '| Question | Answer |',
    '|---|---|',
    `| Name, title, version | \`${SERVER_NAME}\`, ${SERVER_TITLE}, ${SERVER_VERSION} |`,
    `| What it does | ${SERVER_DESCRIPTION} |`,
    '| Address | `{base_url}/mcp`, Streamable HTTP, public HTTPS |',
    '| Protocol | revision 2026-07-28 and those up to 2025-11-25, stateless |',
    '| Sign-in | OAuth 2.1, authorization code with PKCE (S256); metadata after RFC 9728 and RFC 8414; one scope, `mcp` |',
    '| Client registration | client id metadata documents of an allow-list, or `POST /oauth/register`, which returns the pre-configured public client |',
    "| Account needed | yes: a member of a shop, with the permissions of the member's role |",
    '| Limits | 600 tool calls per user and hour, then 429 with `Retry-After` |',
    '| User interface inside the client | none: results are text and structured data |',
    '| Reads and writes separated | yes: each tool either reads or writes |',
    '',
    '## Tools',
    '',
    'You can copy the reasons into the form. All rules and arguments are in [tools.md](tools.md).',
    '',
    ...Object.values(TOOLS).flatMap(({ name, title, hints }) => [
      `### ${title} (\`${name}\`)`,
      '',
      `- readOnlyHint: ${hintText(hints.readOnly)}`,
      `- destructiveHint: ${hintText(hints.destructive)}`,
      `- idempotentHint: ${hintText(hints.idempotent)}`,
      `- openWorldHint: ${hintText(hints.openWorld)}`,
      '',
    ]),
    '## Example prompts',
    '',
    ...EXAMPLE_PROMPTS.map((prompt) => `- ${prompt}`),
    '',
    '## Test cases',
    '',
    'The cases are for the first shop of the demo data, as its owner (`npm start` creates both; passwords are in the stack file). In these cases the assistant uses tools:',
    '',
    ...caseTable(POSITIVE_CASES),
    '',
    'In these cases nothing may change:',
    '',
    ...caseTable(NEGATIVE_CASES),
    '',
    '## Privacy',
    '',
    '- A call can access only the shop that the user chose at sign-in, with the permissions of the role there.',
    "- Results may contain shoppers' names, e-mail addresses and texts, because these are parts of a return. Lists mask e-mail addresses; a single return with detail full shows the address. Card numbers and passwords are not stored, and secrets of webhooks are never returned.",
    '- The server does not receive or store the conversation. It stores: the connection (user, shop, app, start, last use; until it ends), the audit log (user, IP address, tool, object id, connecting and disconnecting; 13 months), results of calls with an idempotency key, which may contain recorded texts (24 hours), counters of calls (one hour), and what the user writes with tools.',
    '- Logs contain no bodies, tokens, names or e-mail addresses.',
    "- Data that an assistant received is subject to the terms of the assistant's vendor. Redacting a shopper here does not delete it there.",
    '- All columns with personal data, and their retention: [privacy.md](../privacy.md).',
    '',
  ].join('\n');
}

function hintText({ is, because }: Hint): string {
  return `**${is}**. ${because}`;
}

function caseTable(cases: readonly DirectoryCase[]): string[] {
  return [
    '| | Prompt | Tools | Expected |',
    '|---|---|---|---|',
    ...cases.map(({ prompt, tools, expected }, at) => {
      const names = tools.length === 0 ? 'none' : tools.map((name) => `\`${name}\``).join(', ');
      return `| ${at + 1} | ${prompt} | ${names} | ${expected} |`;
    }),
  ];
}
