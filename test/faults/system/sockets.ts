import { readdir, readFile, readlink } from 'node:fs/promises';

/**
 * Local TCP ports of all IPv4 sockets of a process, which may be frozen. Linux only.
 *
 * @throws Error when there is no such process.
 */
export async function portsOf(pid: number): Promise<Set<number>> {
  const inodes = await socketInodes(pid);
  const table = await readFile(`/proc/${pid}/net/tcp`, 'utf8');
  const ports = new Set<number>();
  for (const line of table.split('\n').slice(1)) {
    // sl local_address rem_address st queues timer retransmits uid timeout inode …
    const [, local = '', , , , , , , , inode = ''] = line.trim().split(/\s+/);
    if (inodes.has(inode)) ports.add(Number.parseInt(local.split(':')[1] ?? '', 16));
  }
  return ports;
}

async function socketInodes(pid: number): Promise<Set<string>> {
  const folder = `/proc/${pid}/fd`;
  const links = await Promise.all(
    (await readdir(folder)).map((fd) => readlink(`${folder}/${fd}`).catch(() => '')),
  );
  const found = links.map((link) => /^socket:\[(\d+)\]$/.exec(link)?.[1]);
  return new Set(found.filter((inode) => inode !== undefined));
}
