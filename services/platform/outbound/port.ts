/**
 * Webhooks may not use a port below this one, except the port of https. These ports belong to services of the system.
 */
const FIRST_UNPRIVILEGED = 1024;
const HTTPS = 443;

/**
 * Ports above 1023 at which another kind of service usually listens. Without this list, an attacker could send requests
 * to such a service by a webhook. The list has no port from 32768 to 60999, because there any program may listen.
 */
const OTHER_SERVICES: ReadonlyMap<string, readonly number[]> = new Map([
  ['SOCKS, proxies', [1080, 3128, 10080]],
  ['databases', [1433, 1434, 1521, 3050, 3306, 5432, 5433, 5984, 6432, 8086, 8529, 9042, 9160]],
  [
    'more databases',
    [7000, 7001, 7199, 7473, 7474, 7687, 26257, 27017, 27018, 27019, 28015, 28017],
  ],
  ['caches', [6379, 6380, 11211, 16379, 26379]],
  ['search', [9200, 9300, 5601]],
  ['brokers', [1883, 8883, 4222, 5671, 5672, 6650, 9092, 9093, 9094, 15672, 25672, 61613, 61616]],
  ['coordination', [2181, 2379, 2380, 4369, 8200, 8201, 8300, 8301, 8302, 8500, 8501, 8600]],
  ['containers', [2375, 2376, 2377, 6443, 7946, 10250, 10255, 10256, 10257, 10259]],
  ['files', [2049, 3260, 4045, 9418, 10000]],
  ['remote desktops, remote administration', [3389, 5800, 5900, 5901, 5902, 5903, 5985, 5986]],
  ['directories', [3268, 3269, 3659]],
  ['calls, chats, mail', [1719, 1720, 5060, 5061, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 4190]],
  ['tunnels, screens, scanners', [1723, 6000, 6001, 6566]],
]);

const BLOCKED: ReadonlySet<number> = new Set([...OTHER_SERVICES.values()].flat());

/** The ports above 1023 that webhooks may not use, in ascending order. */
export const BLOCKED_PORTS: readonly number[] = [...BLOCKED].toSorted((a, b) => a - b);

/** Whether webhooks may use a port: 443, or a port above 1023 that no other kind of service usually has. */
export function isAllowedPort(port: number): boolean {
  return port === HTTPS || (port >= FIRST_UNPRIVILEGED && !BLOCKED.has(port));
}
