import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  isVersion,
  newestActive,
  payloadVersionServed,
  RELEASED,
  serve,
  stageOf,
  supportedVersions,
} from './versions.ts';

const day = (text: string) => new Date(`${text}T00:00:00Z`);
const dates = fc.date({ min: day('2026-07-01'), max: day('2035-01-01'), noInvalidDate: true });

describe('the version segment', () => {
  test.each(['v1', 'v22', '2026-07', '2030-01', 'unstable'])('%s is a version', (segment) => {
    expect(isVersion(segment)).toBe(true);
  });
  test.each(['', 'webhooks', 'V1', 'latest', '2026-7', 'v1x', '%zz'])('%j is none', (segment) => {
    expect(isVersion(segment)).toBe(false);
  });
});

describe('which version serves', () => {
  test.each([
    ['2026-07', '2026-11-20', '2026-07'],
    ['v1', '2026-11-20', '2026-07'],
    ['2026-10', '2026-11-20', '2026-10'],
    ['unstable', '2026-11-20', 'unstable'],
    [undefined, '2026-11-20', '2026-07'],
    [undefined, '2027-09-30', '2026-07'],
    [undefined, '2027-10-01', '2026-10'],
    ['v1', '2027-09-30', '2026-07'],
    ['2026-07', '2027-10-01', '2026-10'],
    ['2026-07', '2028-02-01', '2026-10'],
    ['2026-10', '2028-02-01', '2026-10'],
  ])('%s on %s is served by %s', (segment, today, served) => {
    const result = serve(segment, day(today));
    expect(result).toMatchObject({ served, requested: segment });
    expect(result).toHaveProperty(['headers', 'X-Service-API-Version'], served);
  });

  test.each([
    ['v1', '2027-10-01', '2026-10, unstable'],
    ['v2', '2026-11-20', '2026-07, 2026-10, unstable'],
    ['2026-08', '2026-11-20', '2026-07, 2026-10, unstable'],
    ['2026-10', '2026-09-30', '2026-07, unstable'],
    ['9999-99', '2026-11-20', '2026-07, 2026-10, unstable'],
  ])('%s on %s is unknown, and the message names what is supported', (segment, today, names) => {
    const unknown = `Unknown API version ${segment}. Supported versions: ${names}.`;
    expect(serve(segment, day(today))).toEqual({ unknown });
  });

  test('a request before the first release day is served by the first version', () => {
    expect(serve(undefined, day('2020-01-01'))).toMatchObject({ served: '2026-07' });
  });
});

describe('headers of the lifecycle', () => {
  test('an active version carries only its name', () => {
    expect(serve('2026-07', new Date('2027-06-30T23:59:59Z'))).toHaveProperty('headers', {
      'X-Service-API-Version': '2026-07',
    });
  });

  test('a deprecated version has the dates of deprecation and sunset, and a link', () => {
    expect(serve('v1', day('2027-07-01'))).toHaveProperty('headers', {
      'X-Service-API-Version': '2026-07',
      Sunset: 'Fri, 01 Oct 2027 00:00:00 GMT',
      Deprecation: `@${Date.UTC(2027, 6, 1) / 1000}`,
      Link: '</docs/changelog>; rel="deprecation"; type="text/html", </docs/changelog>; rel="sunset"; type="text/html"',
    });
  });

  test('a sunset version links to its successor', () => {
    expect(serve('2026-07', day('2027-11-01'), '/webhooks/7')).toHaveProperty(
      ['headers', 'Link'],
      '</api/2026-10/webhooks/7>; rel="successor-version", </docs/changelog>; rel="deprecation"; type="text/html", </docs/changelog>; rel="sunset"; type="text/html"',
    );
  });

  test('the link to the successor has only characters that a header may have', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (rest) => {
        const result = serve('2026-07', day('2027-11-01'), `/${rest}`);
        const link = 'headers' in result ? result.headers.Link : '';
        expect(link).toMatch(
          /^<\/api\/2026-10\/[\x21-\x3b\x3d\x3f-\x7e]*>; rel="successor-version"/,
        );
      }),
    );
  });

  test('unstable has a warning', () => {
    expect(serve('unstable', day('2029-01-01'))).toHaveProperty('headers', {
      'X-Service-API-Version': 'unstable',
      'X-Service-API-Warning':
        'The unstable version may change without notice and must not be used in production.',
    });
  });

  test('the newest release past its window stays deprecated and is reported', () => {
    expect(serve('2026-10', day('2027-12-31'))).toMatchObject({ pastWindow: false });
    expect(serve('2026-10', day('2028-01-01'))).toMatchObject({
      served: '2026-10',
      pastWindow: true,
      headers: { Sunset: 'Sat, 01 Jan 2028 00:00:00 GMT' },
    });
  });
});

describe('the calendar on any day', () => {
  test('at least one version is supported, and the oldest serves a request without a version', () => {
    fc.assert(
      fc.property(dates, (today) => {
        const supported = supportedVersions(today);
        expect(supported.length).toBeGreaterThan(0);
        expect(supported).toEqual([...supported].sort());
        expect(serve(undefined, today)).toMatchObject({ served: supported[0] });
      }),
    );
  });

  test('a version never returns to an earlier stage', () => {
    const order = ['unreleased', 'active', 'deprecated', 'sunset'];
    fc.assert(
      fc.property(dates, dates, fc.constantFrom(...RELEASED), (one, other, version) => {
        const [early, late] = one < other ? [one, other] : [other, one];
        expect(order.indexOf(stageOf(version, late))).toBeGreaterThanOrEqual(
          order.indexOf(stageOf(version, early)),
        );
      }),
    );
  });

  test('Sunset is returned exactly while the serving version is deprecated', () => {
    fc.assert(
      fc.property(dates, fc.constantFrom(...RELEASED, undefined), (today, segment) => {
        const result = serve(segment, today);
        if (!('headers' in result)) return;
        const deprecated = stageOf(result.served, today) === 'deprecated';
        expect(result.headers.Sunset !== undefined).toBe(deprecated);
        expect(result.headers.Deprecation !== undefined).toBe(deprecated);
      }),
    );
  });

  test('a request for a released version is served by it, or by the oldest supported one', () => {
    fc.assert(
      fc.property(dates, fc.constantFrom(...RELEASED), (today, version) => {
        if (stageOf(version, today) === 'unreleased') return;
        const supported = supportedVersions(today);
        const served = supported.includes(version) ? version : supported[0];
        expect(serve(version, today)).toMatchObject({ served });
      }),
    );
  });
});

describe('payload versions', () => {
  test('a new shop gets the newest active version', () => {
    expect(newestActive(day('2026-09-30'))).toBe('2026-07');
    expect(newestActive(day('2026-10-01'))).toBe('2026-10');
    expect(newestActive(day('2028-06-01'))).toBe('2026-10');
  });

  test('a choice is kept while it is supported and upgraded after its sunset', () => {
    expect(payloadVersionServed('2026-07', day('2026-11-20'))).toEqual({
      version: '2026-07',
      headers: { 'X-Service-API-Version': '2026-07' },
    });
    expect(payloadVersionServed('2026-07', day('2027-08-01'))).toEqual({
      version: '2026-07',
      headers: { 'X-Service-API-Version': '2026-07', Sunset: 'Fri, 01 Oct 2027 00:00:00 GMT' },
    });
    expect(payloadVersionServed('2026-07', day('2027-10-01'))).toEqual({
      version: '2026-10',
      headers: { 'X-Service-API-Version': '2026-10', Sunset: 'Sat, 01 Jan 2028 00:00:00 GMT' },
    });
  });
});
