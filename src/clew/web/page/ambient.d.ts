// Types of modules that bring none: style sheets, and the part of node's test runner that the tests use. The types of
// all of node would be one more dependency.

declare module "*.css";
declare module "node:test" {
  export function test(name: string, body: () => void | Promise<void>): void;
}
declare module "node:assert/strict" {
  interface Assert {
    equal(actual: unknown, expected: unknown, message?: string): void;
    deepEqual(actual: unknown, expected: unknown, message?: string): void;
    match(actual: string, pattern: RegExp, message?: string): void;
    doesNotMatch(actual: string, pattern: RegExp, message?: string): void;
    ok(value: unknown, message?: string): void;
    throws(work: () => unknown, kind: unknown): void;
    rejects(work: Promise<unknown>, kind: unknown): Promise<void>;
  }
  const assert: Assert;
  export default assert;
}
