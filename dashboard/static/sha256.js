// SHA-256 of a file in pieces: crypto.subtle needs the whole file in memory, and a secure context.
"use strict";

const HASH_PIECE_BYTES = 1 << 20;
const PRIMES = firstPrimes(64);
const ROUND_CONSTANTS = Int32Array.from(PRIMES, (prime) => fraction(Math.cbrt(prime)));

function firstPrimes(count) {
  const primes = [];
  for (let number = 2; primes.length < count; number += 1) {
    if (primes.every((prime) => number % prime)) primes.push(number);
  }
  return primes;
}

// The first 32 bits of the fractional part.
function fraction(root) {
  return ((root - Math.floor(root)) * 2 ** 32) | 0;
}

function rotate(word, bits) {
  return (word >>> bits) | (word << (32 - bits));
}

class Sha256 {
  constructor() {
    this.state = Int32Array.from(PRIMES.slice(0, 8), (prime) => fraction(Math.sqrt(prime)));
    this.words = new Int32Array(64);
    this.rest = new Uint8Array(0);
    this.length = 0;
  }

  update(bytes) {
    this.length += bytes.length;
    const data = new Uint8Array(this.rest.length + bytes.length);
    data.set(this.rest);
    data.set(bytes, this.rest.length);
    const end = data.length - (data.length % 64);
    const view = new DataView(data.buffer);
    for (let start = 0; start < end; start += 64) this.compress(view, start);
    this.rest = data.slice(end);
  }

  // The digest in hexadecimal; no update may follow.
  digest() {
    const bits = this.length * 8;
    const padding = new Uint8Array(((119 - (this.length % 64)) % 64) + 9);
    padding[0] = 0x80;
    const view = new DataView(padding.buffer);
    view.setUint32(padding.length - 8, Math.floor(bits / 2 ** 32));
    view.setUint32(padding.length - 4, bits % 2 ** 32);
    this.update(padding);
    return Array.from(this.state, (word) => (word >>> 0).toString(16).padStart(8, "0")).join("");
  }

  compress(view, start) {
    const words = this.words;
    for (let i = 0; i < 16; i += 1) words[i] = view.getInt32(start + 4 * i);
    for (let i = 16; i < 64; i += 1) {
      const early = words[i - 15];
      const late = words[i - 2];
      const first = rotate(early, 7) ^ rotate(early, 18) ^ (early >>> 3);
      const second = rotate(late, 17) ^ rotate(late, 19) ^ (late >>> 10);
      words[i] = words[i - 16] + first + words[i - 7] + second;
    }
    const state = this.state;
    // Destructuring and forEach take longer here than the rounds.
    let a = state[0], b = state[1], c = state[2], d = state[3];
    let e = state[4], f = state[5], g = state[6], h = state[7];
    for (let i = 0; i < 64; i += 1) {
      const high = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
      const next = (h + high + ((e & f) ^ (~e & g)) + ROUND_CONSTANTS[i] + words[i]) | 0;
      const low = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
      const sum = (low + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g;
      g = f;
      f = e;
      e = (d + next) | 0;
      d = c;
      c = b;
      b = a;
      a = (next + sum) | 0;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
    state[5] += f;
    state[6] += g;
    state[7] += h;
  }
}

async function hashFile(file) {
  const hash = new Sha256();
  for (let start = 0; start < file.size; start += HASH_PIECE_BYTES) {
    hash.update(new Uint8Array(await file.slice(start, start + HASH_PIECE_BYTES).arrayBuffer()));
  }
  return hash.digest();
}
