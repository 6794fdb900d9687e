import { styleText } from 'node:util';
import { newestActive } from '../../services/contract/versions.ts';
import type { Plan } from './plan.ts';
import type { Running } from './running.ts';

/** The text that is printed when the stack is ready: addresses, a key of the demo, and three example calls. */
export function welcome(plan: Plan, { services, shops }: Running, controlUrl: string): string {
  const { baseUrl, startedAt } = plan;
  const seconds = (Date.now() - startedAt.getTime()) / 1000;
  const title = (text: string) => styleText('bold', text);
  const targets = Object.entries(services.targets).map(([name, target]) => `${name} ${target}`);
  const lines = [
    `${title('Ready')} after ${seconds.toFixed(1)} s. Ctrl-C stops everything.`,
    '',
    `REST and docs     ${baseUrl}  ${baseUrl}/docs`,
    `Portal            ${baseUrl}/portal  (people and passwords: users in ${plan.options.stack})`,
    `Assistants (MCP)  ${baseUrl}/mcp`,
    `Sign-in           ${plan.authUrl}`,
    `gRPC              ${targets.slice(0, 3).join(', ')}`,
    `                  ${targets.slice(3).join(', ')}`,
    `Control server    ${controlUrl}`,
    `Everything else    ${plan.options.stack}`,
  ];
  const [shop] = shops;
  const [open] = shop?.fixtures.returns.open ?? [];
  if (!shop || !open) return lines.join('\n');
  const key = shop.api_keys.all;
  const header = `-H 'X-Authorization: ${key}'`;
  const api = `${baseUrl}/api/${newestActive(plan.today)}`;
  return [
    ...lines,
    '',
    `API key of shop 1 ${key}`,
    '',
    title('Try it:'),
    `curl -s ${header} '${api}/warehouse/return/details?order_name=${encodeURIComponent(open.order_name)}'`,
    `curl -s ${header} -X POST '${api}/warehouse/return/${open.id}/process'`,
    `curl -s ${header} '${api}/webhooks'`,
  ].join('\n');
}
