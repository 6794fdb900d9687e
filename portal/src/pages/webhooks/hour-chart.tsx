import { timestampDate } from '@bufbuild/protobuf/wkt';
import { useComputedColorScheme } from '@mantine/core';
import {
  Bar,
  BarChart,
  CartesianGrid,
  Legend,
  ResponsiveContainer,
  Tooltip,
  XAxis,
  YAxis,
} from 'recharts';
import type { DeliveryHour } from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { currentZone } from '../../parts/time/zone.ts';

/** The hour on the axis, with its day when the chart has several days. In the zone that the page shows. */
function hourFormat(withDay: boolean): Intl.DateTimeFormat {
  return new Intl.DateTimeFormat(undefined, {
    ...(withDay && { day: 'numeric', month: 'short' }),
    hour: '2-digit',
    minute: '2-digit',
    ...(currentZone() === 'utc' && { timeZone: 'UTC' }),
  });
}

/** The bars from bottom to top: their field, name, and colour in the light and the dark scheme. */
const BARS = [
  ['delivered', 'Delivered', '#2b8a3e', '#51cf66'],
  ['waiting', 'Not tried yet', '#1971c2', '#4dabf7'],
  ['retrying', 'Waiting for a retry', '#e67700', '#fcc419'],
  ['failed', 'Failed', '#c92a2a', '#ff8787'],
] as const;

/** Bars of deliveries by hour, and the same numbers as a table for screen readers. @param o.height pixels. */
// biome-ignore lint/style/noDefaultExport: React.lazy loads default exports.
export default function HourChart(o: {
  readonly hours: readonly DeliveryHour[];
  readonly height: number;
}) {
  const { hours, height } = o;
  const isDark = useComputedColorScheme() === 'dark';
  const ink = isDark ? '#c9c9c9' : '#495057';
  const grid = isDark ? '#424242' : '#dee2e6';
  const rows = hours.map(({ startsAt, delivered, failed, waiting, retrying }) => ({
    at: startsAt ? timestampDate(startsAt) : new Date(0),
    delivered,
    failed,
    waiting: waiting - retrying,
    retrying,
  }));
  const axis = hourFormat(hours.length > 24);
  const withDay = hourFormat(true);
  return (
    <div>
      {/* The chart follows a new width a moment later; until then the page must not scroll sideways. */}
      <div aria-hidden="true" style={{ overflow: 'hidden' }}>
        <ResponsiveContainer width="100%" height={height}>
          <BarChart data={rows} accessibilityLayer={false}>
            <CartesianGrid vertical={false} stroke={grid} />
            <XAxis
              dataKey="at"
              tickFormatter={(at: Date) => axis.format(at)}
              tick={{ fill: ink, fontSize: 12 }}
              stroke={grid}
              minTickGap={24}
            />
            <YAxis
              allowDecimals={false}
              width={44}
              tick={{ fill: ink, fontSize: 12 }}
              stroke={grid}
            />
            <Tooltip
              labelFormatter={(at) => (at instanceof Date ? withDay.format(at) : '')}
              contentStyle={{
                background: 'var(--mantine-color-body)',
                borderColor: grid,
                borderRadius: 8,
              }}
              cursor={{ fill: grid, opacity: 0.4 }}
            />
            <Legend formatter={(name: string) => <span style={{ color: ink }}>{name}</span>} />
            {BARS.map(([key, name, light, dark]) => (
              <Bar
                key={key}
                dataKey={key}
                name={name}
                stackId="all"
                fill={isDark ? dark : light}
                isAnimationActive={false}
              />
            ))}
          </BarChart>
        </ResponsiveContainer>
      </div>
      <Numbers rows={rows} hour={withDay} />
    </div>
  );
}

interface Row {
  readonly at: Date;
  readonly delivered: number;
  readonly failed: number;
  readonly waiting: number;
  readonly retrying: number;
}

function Numbers({
  rows,
  hour,
}: {
  readonly rows: readonly Row[];
  readonly hour: Intl.DateTimeFormat;
}) {
  return (
    <div className="visually-hidden">
      <table>
        <caption>Deliveries by hour</caption>
        <thead>
          <tr>
            <th scope="col">Hour</th>
            {BARS.map(([key, name]) => (
              <th key={key} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.at.toISOString()}>
              <th scope="row">{hour.format(row.at)}</th>
              {BARS.map(([key]) => (
                <td key={key}>{row[key]}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
