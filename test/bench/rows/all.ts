import type { Row } from '../row.ts';
import { backlog } from './backlog.ts';
import { closed } from './closed.ts';
import { edge } from './edge.ts';
import { endpoints } from './endpoints.ts';
import { idle } from './idle.ts';
import { life } from './life.ts';
import { mcp } from './mcp.ts';
import { overload } from './overload.ts';
import { peers } from './peers.ts';
import { read } from './read.ts';
import { start } from './start.ts';
import { steady50, steady200 } from './steady.ts';
import { submissions } from './submissions.ts';
import { fanOut, slowReceivers, throughput, throughputBatch, tlsReceivers } from './throughput.ts';
import { write } from './write.ts';

/** All rows, in the order of the table of goals. */
export const ROWS: readonly Row[] = [
  peers,
  throughput,
  throughputBatch,
  slowReceivers,
  tlsReceivers,
  fanOut,
  steady50,
  steady200,
  closed,
  life,
  backlog,
  endpoints,
  read,
  mcp,
  write,
  submissions,
  overload,
  edge,
  idle,
  start,
];
