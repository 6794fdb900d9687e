import { styleText } from 'node:util';

/** The text that is printed when the stack is ready: addresses, a key, and three example calls. */
export function welcome(o: {
  readonly baseUrl: string;
  readonly stackFile: string;
  readonly controlUrl: string;
  readonly authUrl: string;
  readonly grpc: Readonly<Record<string, string>>;
  readonly seconds: number;
  readonly version: string;
  /** The first shop's key and an open return; absent without the demo. */
  readonly demo?: { readonly key: string; readonly orderName: string; readonly openId: number };
}): string {
  const title = (text: string) => styleText('bold', text);
  const services = Object.entries(o.grpc).map(([name, target]) => `${name} ${target}`);
  const lines = [
    `${title('Ready')} after ${o.seconds.toFixed(1)} s. Ctrl-C stops everything.`,
    '',
    `REST and docs     ${o.baseUrl}  ${o.baseUrl}/docs`,
    `Assistants (MCP)  ${o.baseUrl}/mcp`,
    `Sign-in           ${o.authUrl}`,
    `gRPC              ${services.slice(0, 3).join(', ')}`,
    `                  ${services.slice(3).join(', ')}`,
    `Control server    ${o.controlUrl}`,
    `All else          ${o.stackFile}`,
  ];
  if (!o.demo) return lines.join('\n');
  const { key, orderName, openId } = o.demo;
  const header = `-H 'X-Authorization: ${key}'`;
  const api = `${o.baseUrl}/api/${o.version}`;
  return [
    ...lines,
    '',
    `API key of shop 1 ${key}`,
    '',
    title('Try it:'),
    `curl -s ${header} '${api}/warehouse/return/details?order_name=${encodeURIComponent(orderName)}'`,
    `curl -s ${header} -X POST '${api}/warehouse/return/${openId}/process'`,
    `curl -s ${header} '${api}/webhooks'`,
  ].join('\n');
}
