/* Check a rankfall certificate in a browser or in Node, without any library: node check.js file.json

   In a page, as a plain script, this file defines two functions; in Node it exports them:
     checkText(text, data)            the text of a certificate, as it stands in its file
     checkCertificate(document, data) the same, parsed (JSON.parse overlooks keys that occur twice, and 1.0)
   Both return {accepted, claims: [{claim, holds, sentence}], malformed, told, milliseconds}. `data` are the
   reader's own samples, {x: rows of numbers, y: labels}: then the certificate must be about these.

   A certificate is about a network f(x) = sum_j a_j s(w_j.x), s(z) = max(z, alpha z), samples x_i with labels
   y_i = +-1 (a bias is one more coordinate 1 of every x_i), and a KKT point of: minimise |W|^2/2 (both layers
   trained: |W|^2/2 + |a|^2/2) such that all margins y_i f(x_i) are at least 1. It gives multipliers lam_i of
   the support vectors and groups g of neurons with one sign of a_j and one pattern of sides "+", "-", and "0"
   for a kink, where the group has a number mu_gi of its own. Elsewhere mu_gi = P_gi lam_i, P = 1 at "+" and
   alpha at "-" (P = 0 at "0"). With the Gram matrix G,
     w_j = a_j v_g,   v_g = sum_i y_i mu_gi x_i,   t_gk = v_g.x_k = sum_i y_i mu_gi G_ik,
     q_k = y_k sum_g c_g P_gk t_gk  is the margin of sample k,   c_g = sum_{j in g} a_j^2.

   All these are integers over known denominators, held as BigInt. No rounded number decides anything: what is
   rounded is rounded to the safe side, and doubles only propose a Cholesky factor. */
(function (root) {
  "use strict";

  class Refused extends Error {} // an obligation does not hold: the sentence says which
  class Malformed extends Error {} // the document cannot be read: the sentence says why

  function demand(holds, sentence) { if (!holds) throw new Refused(sentence); }
  function expect(holds, sentence) { if (!holds) throw new Malformed(sentence); }

  const DEEPEST = 20; // levels of nesting in a document
  const NUMERAL = 100; // characters of a number of JSON
  const DIGITS = 100000; // hexadecimal digits of an integer
  const UNKNOWNS = { "first layer": 200000, "both layers": 1000 }; // multipliers, kinks and amplitudes
  const COUPLED = 5000; // unknowns whose equations are looked at as a whole
  const MEMORY = 2 ** 33; // bits that a matrix may take
  const WORK = 2 ** 42; // products of bits in an elimination

  /* A matrix must not take more than a gigabyte: 300 bits and its own for each entry. */
  function affordable(entries, size) {
    expect(entries * (size + 300) <= MEMORY, "it is too large: a matrix would take more than a gigabyte.");
  }

  /* Text of a file without line breaks and signs that are not seen: it must not look like a verdict. */
  function plain(text) {
    const code = (sign) => `\\u${sign.codePointAt(0).toString(16).padStart(4, "0")}`;
    return text.replace(/[\p{C}\p{Z}]/gu, (sign) => (sign === " " ? sign : code(sign)));
  }

  // ---------------------------------------------------------------------------------------------------------
  // JSON without repeated keys, NaN and infinity. Numbers with a point or an exponent are no whole numbers.

  class Real {
    constructor(spelled) { this.value = Number(spelled); }
  }

  function parse(text) {
    const blank = /[ \t\n\r]*/y;
    const number = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
    const words = { t: ["true", true], f: ["false", false], n: ["null", null] };
    let at = 0;

    function fail(what) { throw new Malformed(`this is not JSON: ${what} at character ${at}.`); }
    function skip() { blank.lastIndex = at; blank.test(text); at = blank.lastIndex; }
    function take(pattern) {
      pattern.lastIndex = at;
      const found = pattern.exec(text);
      if (found) at = pattern.lastIndex;
      return found;
    }
    function string() {
      let end = text.indexOf('"', at + 1);
      if (text[at] !== '"' || end < 0) fail("no text");
      let found = text.slice(at + 1, end);
      if (/[\\\u0000-\u001f]/.test(found)) { // JSON.parse knows what may be escaped, and how
        for (end = at + 1; end < text.length && text[end] !== '"';) end += text[end] === "\\" ? 2 : 1;
        try {
          found = JSON.parse(text.slice(at, end + 1));
        } catch {
          fail("no text");
        }
      }
      at = end + 1;
      return found;
    }
    function numeral() {
      const found = take(number);
      if (!found) fail("nothing that can be read");
      expect(found[0].length <= NUMERAL, `a number has more than ${NUMERAL} characters.`);
      expect(Number.isFinite(Number(found[0])), `${found[0]} is not a finite number.`);
      return found[1] || found[2] ? new Real(found[0]) : Number(found[0]) + 0;
    }
    function sequence(end, depth, one) {
      at += 1;
      skip();
      if (text[at] === end) { at += 1; return; }
      for (;;) {
        skip();
        one(depth + 1);
        skip();
        if (text[at] === end) { at += 1; return; }
        if (text[at] !== ",") fail(`no "," or "${end}"`);
        at += 1;
      }
    }
    function value(depth) {
      expect(depth <= DEEPEST, "it is nested too deeply.");
      const first = text[at];
      if (first === '"') return string();
      if (first === "[") {
        const items = [];
        sequence("]", depth, (deeper) => items.push(value(deeper)));
        return items;
      }
      if (first === "{") {
        const items = Object.create(null); // no key has a meaning of its own, as "__proto__" would
        sequence("}", depth, (deeper) => {
          const key = string();
          expect(!(key in items), "a key occurs twice in one object.");
          skip();
          if (text[at] !== ":") fail('no ":"');
          at += 1;
          skip();
          items[key] = value(deeper);
        });
        return items;
      }
      const word = words[first];
      if (!word) return numeral();
      if (!text.startsWith(word[0], at)) fail("nothing that can be read");
      at += word[0].length;
      return word[1];
    }

    skip();
    const found = value(0);
    skip();
    if (at < text.length) fail("more than one value");
    return found;
  }

  /* Of a parsed document, whose reader may have had no such limit. */
  function nested(document) {
    const branches = (each) => typeof each === "object" && each !== null && !(each instanceof Real);
    let level = [document];
    for (let depth = 0; depth <= DEEPEST; depth += 1) level = level.filter(branches).flatMap(Object.values);
    return level.length > 0;
  }

  /* What is told without proof, as plain values. */
  function plainly(value) {
    if (value instanceof Real) return value.value;
    if (Array.isArray(value)) return value.map(plainly);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.keys(value).map((key) => [key, plainly(value[key])]));
  }

  // ---------------------------------------------------------------------------------------------------------
  // The form of a certificate. A kind is a function of a value and its place: it returns what it read.

  const NORMAL = /^(-?)0x1\.([0-9a-f]{13})p([+-])(0|[1-9][0-9]{0,3})$/;
  const SUBNORMAL = /^(-?)0x0\.([0-9a-f]{13})p-1022$/;

  /* A finite double as Python's float.hex() spells it, and only so: above / 2^shift, in lowest terms. */
  function double(value, where) {
    const sentence = `${where} must be a finite double as float.hex() spells it.`;
    expect(typeof value === "string", sentence);
    if (value === "0x0.0p+0" || value === "-0x0.0p+0") return { above: 0n, shift: 0, spelled: "0x0.0p+0" };
    let found = NORMAL.exec(value);
    let lead = "1";
    let exponent = -1022;
    if (found) {
      exponent = Number(found[3] + found[4]);
      expect(exponent >= -1022 && exponent <= 1023 && (exponent || found[3] === "+"), sentence);
    } else {
      found = SUBNORMAL.exec(value);
      expect(found && /[^0]/.test(found[2]), sentence);
      lead = "0";
    }
    const digits = found[2].replace(/0+$/, "");
    const last = digits ? parseInt(digits[digits.length - 1], 16) : 1;
    const spare = 31 - Math.clz32(last & -last); // zeros below the last binary digit that is 1
    const size = BigInt(`0x${lead}${digits}`) >> BigInt(spare);
    const shift = 4 * digits.length - spare - exponent;
    const whole = shift < 0 ? size << BigInt(-shift) : size;
    return { above: found[1] ? -whole : whole, shift: Math.max(shift, 0), spelled: value };
  }

  /* An integer as Python's hex() spells it, and only so. */
  function integer(value, where) {
    const short = typeof value !== "string" || value.length <= DIGITS + 3;
    expect(short, `${where} has more than ${DIGITS} digits.`);
    const good = typeof value === "string" && value !== "-0x0" && /^-?0x(?:0|[1-9a-f][0-9a-f]*)$/.test(value);
    expect(good, `${where} must be an integer as hex() spells it.`);
    return value.startsWith("-") ? -BigInt(value.slice(1)) : BigInt(value);
  }

  function count(value, where) {
    expect(Number.isInteger(value) && value >= 0 && value < 1e9, `${where} must be a whole number.`);
    return value;
  }
  function words(value, where) {
    expect(typeof value === "string", `${where} must be text.`);
    return value;
  }
  function anything(value) { return value; }
  function oneOf(...constants) {
    return (value, where) => {
      expect(constants.includes(value), `${where} must be one of ${constants.join(", ")}.`);
      return value;
    };
  }
  function list(kind) {
    return (value, where) => {
      expect(Array.isArray(value), `${where} must be a list.`);
      return value.map((each) => kind(each, where));
    };
  }
  function orNull(kind) { return (value, where) => (value === null ? null : kind(value, where)); }

  function isObject(value) {
    return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Real);
  }
  function facts(value, where) {
    expect(isObject(value), `${where} must be an object.`);
    return value;
  }

  /* Every key that is not marked by "?" must be there, and no key that is not named. */
  function object(fields) {
    const kinds = new Map(Object.keys(fields).map((key) => [key.replace("?", ""), fields[key]]));
    return (value, where) => {
      expect(isObject(value), `${where} must be an object.`);
      const unknown = Object.keys(value).find((key) => !kinds.has(key));
      expect(unknown === undefined, `${where} has an unknown key: ${plain(String(unknown).slice(0, 80))}.`);
      const found = {};
      for (const [name, kind] of kinds) {
        if (Object.hasOwn(value, name)) found[name] = kind(value[name], `'${name}'`);
        else expect(`${name}?` in fields, `${where} has no '${name}'.`);
      }
      return found;
    };
  }

  const SAMPLES = {
    name: words, samples: count, features: count, sha256: words, "x?": list(list(double)), "y?": list(double),
  };
  const PROBLEM = {
    data: object(SAMPLES),
    bias: oneOf(false, true),
    slope: double,
    trained: oneOf("first layer", "both layers"),
    second_layer: orNull(list(double)),
    width: count,
    loss: oneOf("exponential", "logistic", "square"),
  };
  const POINT = {
    groups: list(object({ neurons: list(count), pattern: words, "sign?": oneOf(1, -1) })),
    support: list(count),
    denominator: integer,
    multipliers: list(integer), // numerators of lam, in the order of the support
    kinks: list(integer), // numerators of mu at every "0" of a support vector, group by group
    "amplitudes?": list(integer), // numerators of c, if both layers are trained
    "tau?": double, // there if the equations hold only nearly
  };
  const CERTIFICATE = object({
    format: oneOf("rankfall certificate"),
    version: oneOf(1),
    problem: object(PROBLEM),
    point: orNull(object(POINT)),
    claims: list(anything),
    "followed?": facts, // told, and not judged
    "estimated?": facts,
  });
  const CLAIMS = new Map(Object.entries({
    kkt: {},
    stays: {
      coordinates: oneOf("samples", "features"), start: list(list(double)), level: double, radius: double,
    },
    rank: { rank: count, "groups?": list(count), "tau?": double },
    "stable rank": { lower: double, upper: double, largest: double, vector: list(double) },
    optimal: { "+": list(orNull(list(double))), "-": list(orNull(list(double))) },
    refutes: {
      id: words,
      sentence: words,
      quantity: oneOf("rank", "stable rank"),
      relation: oneOf("<=", "<", "=", ">", ">="),
      bound: double,
    },
    inseparable: { "sample?": count, "samples?": list(count), "combination?": list(integer) },
    rest: {
      coordinates: oneOf("samples", "features"),
      start: list(list(double)),
      groups: list(object({ neurons: list(count), pattern: words, slopes: list(double) })),
      "signs?": words, // of the residuals, for the square loss
      features: list(count),
      radius: double,
      delta: double,
      tau: double,
      independent: double,
      stiffness: double,
      lower: double,
      upper: double,
      "wrong?": count, // misclassified samples, for the other losses
    },
  }).map(([name, fields]) => [name, object({ claim: words, ...fields })]));

  // ---------------------------------------------------------------------------------------------------------
  // Arithmetic

  const PLACES = 320;
  const UNIT = 1n << BigInt(PLACES); // rounded numbers are integers in units of 2^-320
  const PRIME = (1n << 61n) - 1n;
  const CORNERS = 14; // support vectors of one class up to which all corners are looked at

  function abs(value) { return value < 0n ? -value : value; }
  function sum(values) { return values.reduce((total, each) => total + each, 0n); }
  function least(values) { return values.reduce((one, other) => (other < one ? other : one)); }
  function most(values) { return values.reduce((one, other) => (other > one ? other : one)); }
  function largest(rows) { // of the absolute values
    return most(rows.map((row) => most(row.map(abs))));
  }
  function dot(u, v) {
    let total = 0n;
    for (let i = 0; i < u.length; i += 1) total += u[i] * v[i];
    return total;
  }
  function down(above, below) { // floor(above / below), below > 0
    const whole = above / below;
    return whole * below > above ? whole - 1n : whole;
  }
  function up(above, below) { return -down(-above, below); }
  function bits(value) {
    if (value < 0n) return bits(-value);
    if (value === 0n) return 0;
    const digits = value.toString(16);
    return 4 * digits.length - Math.clz32(parseInt(digits[0], 16)) + 28;
  }
  function moved(value, places) { return places >= 0 ? value << BigInt(places) : value >> BigInt(-places); }
  function half(value) { return Math.floor(value / 2); }

  /* floor(sqrt(value)): Newton's method, from above. */
  function isqrt(value) {
    if (value < 2n) return value;
    const size = bits(value);
    let guess = 1n << BigInt((size + 1) >> 1);
    if (size < 1000) guess = BigInt(Math.floor(Math.sqrt(Number(value)))); // a first guess; any will do
    guess = (guess + value / guess) >> 1n;
    for (;;) {
      const next = (guess + value / guess) >> 1n;
      if (next >= guess) return guess;
      guess = next;
    }
  }

  /* Rational numbers above / below, below > 0. They are few and short: not reduced. */
  class Ratio {
    constructor(above, below = 1n) { this.above = above; this.below = below; }

    static of(number) { return new Ratio(number.above, 1n << BigInt(number.shift)); } // of a double
    static power(k) { return k >= 0 ? new Ratio(1n << BigInt(k)) : new Ratio(1n, 1n << BigInt(-k)); } // 2^k

    plus(other) {
      return new Ratio(this.above * other.below + other.above * this.below, this.below * other.below);
    }
    minus(other) { return this.plus(new Ratio(-other.above, other.below)); }
    times(other) { return new Ratio(this.above * other.above, this.below * other.below); }
    over(other) { return new Ratio(this.above * other.below, this.below * other.above); } // other > 0
    floor() { return down(this.above, this.below); }
    ceil() { return up(this.above, this.below); }
    exceeds(other) { return this.above * other.below > other.above * this.below; }
    positive() { return this.above > 0n; }
    /* Not below the square root, and nearly it. */
    root() { return new Ratio(isqrt(up(this.above * UNIT * UNIT, this.below)) + 1n, UNIT); }
    /* A double in the shortest spelling that reads back as it: a rounded one might say what is not proved. */
    told() {
      const size = bits(this.above) - bits(this.below);
      const near = Number(moved(this.above, 64 - size) / this.below) * 2 ** -64 * 2 ** size;
      return near !== 0 && Math.abs(near) < 1e-4 ? near.toExponential() : String(near);
    }
  }
  const ZERO = new Ratio(0n);
  const ONE = new Ratio(1n);

  /* Integers over a common power of two, 2^shift, from doubles. */
  function dyadic(numbers) {
    const shift = numbers.reduce((top, each) => Math.max(top, each.shift), 0);
    return { values: numbers.map(({ above, shift: own }) => above << BigInt(shift - own)), shift };
  }

  /* [low, high] around e^number in units. For x = number / 2^k < 1/2 by Taylor's series, then squared k
     times. */
  function exp(number) {
    demand(new Ratio(1000n).exceeds(number), "a pull is beyond e^1000.");
    if (number.above < 0n) {
      const far = -number.above >= 999n * number.below;
      const [low, high] = exp(far ? new Ratio(999n) : new Ratio(-number.above, number.below));
      return [far ? 0n : (UNIT * UNIT) / high, (UNIT * UNIT) / low + 1n];
    }
    const k = bits(number.floor()) + 1;
    const x = (number.above << BigInt(PLACES - k)) / number.below;
    let low = UNIT;
    let high = UNIT;
    let under = UNIT; // the term of this order, rounded down and up
    let over = UNIT;
    for (let order = 1n; order < 80n; order += 1n) {
      under = ((under * x) >> BigInt(PLACES)) / order;
      over = ((over * (x + 1n)) >> BigInt(PLACES)) / order + 1n;
      low += under;
      high += over;
    }
    high += over; // all further terms are less than the last
    for (let turn = 0; turn < k; turn += 1) {
      low = (low * low) >> BigInt(PLACES);
      high = ((high * high) >> BigInt(PLACES)) + 1n;
    }
    return [low, high];
  }

  /* The products of all rows of A with all rows of B. The entries of a column of B stand in one long
     integer, in slots wide enough for the results, so that one multiplication is a whole column's. */
  function products(A, B) {
    const width = B[0].length;
    const size = (rows) => bits(largest(rows));
    const digits = Math.ceil((size(A) + size(B) + bits(BigInt(width)) + 3) / 4); // of a slot, hexadecimal
    const middle = 1n << BigInt(4 * digits - 1);
    const spell = (value) => (value + middle).toString(16).padStart(digits, "0");
    const pack = (values) => BigInt(`0x${values.map(spell).join("")}`);
    const middles = pack(B.map(() => 0n));
    const columns = Array.from({ length: width }, (_, c) => pack(B.map((row) => row[c])) - middles);
    return A.map((row) => {
      let packed = middles;
      for (let c = 0; c < width; c += 1) if (row[c]) packed += row[c] * columns[c];
      const spelled = packed.toString(16).padStart(digits * B.length, "0");
      return B.map((_, k) => BigInt(`0x${spelled.slice(k * digits, (k + 1) * digits)}`) - middle);
    });
  }

  /* A row of integers below 2^62, each as three integers of 21 bits: their products, and sums of 2048 of these, are
     integers below 2^53, which doubles hold exactly. */
  class Limbs {
    constructor(values) {
      this.parts = [0, 1, 2].map(() => new Float64Array(values.length));
      values.forEach((value, i) => {
        const top = Math.round(value / 2 ** 42);
        const middle = Math.round((value - top * 2 ** 42) / 2 ** 21);
        this.parts[0][i] = value - top * 2 ** 42 - middle * 2 ** 21;
        this.parts[1][i] = middle;
        this.parts[2][i] = top;
      });
    }

    /* The sum of products of `length` entries, from `start` on here and from `otherStart` on there. */
    dot(other, start, otherStart, length) {
      const [a, b, c] = this.parts;
      const [u, v, w] = other.parts;
      let total = 0n;
      for (let done = 0; done < length; done += 2048) {
        let [s0, s1, s2, s3, s4] = [0, 0, 0, 0, 0];
        const end = start + Math.min(length, done + 2048);
        for (let i = start + done, k = otherStart + done; i < end; i += 1, k += 1) {
          s0 += a[i] * u[k];
          s1 += a[i] * v[k] + b[i] * u[k];
          s2 += a[i] * w[k] + b[i] * v[k] + c[i] * u[k];
          s3 += b[i] * w[k] + c[i] * v[k];
          s4 += c[i] * w[k];
        }
        total += [s4, s3, s2, s1, s0].reduce((sofar, part) => (sofar << 21n) + BigInt(part), 0n);
      }
      return total;
    }
  }

  /* Is no eigenvalue of a symmetric matrix A below tau? Row e holds the columns first[e] to e, in units of
     2^-120 and known to less than one; before them it is 0. If M is any matrix, here a Cholesky factor of
     A - 2 tau in doubles, and |A - 2 tau - M M^T| <= tau (Frobenius), then A >= tau. */
  function definite(rows, first, tau) {
    const away = tau.times(new Ratio(2n << 120n)).ceil();
    const shifted = rows.map((row) => [...row.slice(0, -1), row[row.length - 1] - away]);
    const factor = [];
    for (const [e, row] of shifted.entries()) {
      const made = new Float64Array(row.length);
      for (let f = first[e]; f <= e; f += 1) {
        const other = f === e ? made : factor[f];
        const start = Math.max(first[e], first[f]);
        let known = 0;
        for (let i = start; i < f; i += 1) known += made[i - first[e]] * other[i - first[f]];
        const rest = Number(row[f - first[e]]) / 2 ** 120 - known;
        if (f === e && !(rest > 0 && rest < Infinity)) return false;
        made[f - first[e]] = f === e ? Math.sqrt(rest) : rest / other[f - first[f]];
      }
      factor.push(made);
    }
    let places = 60; // of M, whose entries are then integers below 2^62
    const top = factor.reduce((high, row) => row.reduce((one, v) => Math.max(one, Math.abs(v)), high), 0);
    if (!(top < 2 ** 50)) return false; // or not a number
    while (top * 2 ** places >= 2 ** 62) places -= 1;
    const M = factor.map((row) => new Limbs(row.map((value) => Math.trunc(value * 2 ** places))));
    let total = 0n;
    shifted.forEach((row, e) => row.forEach((value, k) => {
      const f = first[e] + k;
      const start = Math.max(first[e], first[f]);
      const product = M[e].dot(M[f], start - first[e], start - first[f], f + 1 - start);
      const off = abs(value - (product << BigInt(120 - 2 * places))) + 2n;
      total += (e === f ? 1n : 2n) * off * off;
    }));
    const allowed = tau.times(new Ratio(1n << 120n));
    return !new Ratio(total).exceeds(allowed.times(allowed));
  }

  /* The rank of an integer matrix, modulo a prime if one is given, else of rationals without fractions
     (Bareiss). It stops when the rank is known to be larger than `enough`. */
  function rankOf(matrix, prime = 0n, enough = Infinity) {
    let rows = prime ? matrix.map((row) => row.map((value) => ((value % prime) + prime) % prime)) : matrix;
    let found = 0;
    let last = 1n;
    for (let k = 0; rows.length && k < rows[0].length && found <= enough; k += 1) {
      const place = rows.findIndex((row) => row[k] !== 0n);
      if (place < 0) continue;
      const pivot = rows[place];
      const divide = last;
      const reduced = (value) => (prime ? ((value % prime) + prime) % prime : value / divide); // evenly
      rows = rows.filter((_, e) => e !== place).map((row) => (prime && row[k] === 0n ? row
        : row.map((value, c) => (c < k ? 0n : reduced(pivot[k] * value - row[k] * pivot[c])))));
      last = pivot[k];
      found += 1;
    }
    return found;
  }

  // ---------------------------------------------------------------------------------------------------------
  // The data and the network

  // SHA-256 (FIPS 180-4). Its constants are the first bits of the cube and square roots of primes.
  const SHA = (() => {
    const primes = [];
    for (let p = 2; primes.length < 64; p += 1) if (primes.every((each) => p % each)) primes.push(p);
    const icbrt = (value) => { // of integers, by bisection
      let [low, high] = [0n, 1n << 40n];
      while (high - low > 1n) {
        const middle = (low + high) >> 1n;
        if (middle ** 3n <= value) low = middle; else high = middle;
      }
      return low;
    };
    const fraction = (value) => Number(value & 0xffffffffn) | 0;
    return {
      rounds: Int32Array.from(primes, (p) => fraction(icbrt(BigInt(p) << 96n))),
      start: primes.slice(0, 8).map((p) => fraction(isqrt(BigInt(p) << 64n))),
    };
  })();

  function sha256(text) {
    const source = new TextEncoder().encode(text);
    const bytes = new Uint8Array((Math.floor((source.length + 8) / 64) + 1) * 64);
    bytes.set(source);
    bytes[source.length] = 0x80;
    const view = new DataView(bytes.buffer);
    view.setBigUint64(bytes.length - 8, BigInt(source.length) * 8n);
    const state = Int32Array.from(SHA.start);
    const w = new Int32Array(64);
    const turn = (x, r) => (x >>> r) | (x << (32 - r));
    for (let block = 0; block < bytes.length; block += 64) {
      for (let i = 0; i < 16; i += 1) w[i] = view.getInt32(block + 4 * i);
      for (let i = 16; i < 64; i += 1) {
        const s0 = turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ (w[i - 15] >>> 3);
        const s1 = turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ (w[i - 2] >>> 10);
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
      }
      let [a, b, c, d, e, f, g, h] = state;
      for (let i = 0; i < 64; i += 1) {
        const s1 = turn(e, 6) ^ turn(e, 11) ^ turn(e, 25);
        const one = (h + s1 + ((e & f) ^ (~e & g)) + SHA.rounds[i] + w[i]) | 0;
        const s0 = turn(a, 2) ^ turn(a, 13) ^ turn(a, 22);
        const two = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
        h = g;
        g = f;
        f = e;
        e = (d + one) | 0;
        d = c;
        c = b;
        b = a;
        a = (one + two) | 0;
      }
      [a, b, c, d, e, f, g, h].forEach((value, i) => { state[i] += value; });
    }
    return Array.from(state, (value) => (value >>> 0).toString(16).padStart(8, "0")).join("");
  }

  /* A number of the reader's as a double of a certificate; -0 counts as 0. */
  function spelled(number) {
    expect(typeof number === "number" && Number.isFinite(number), "your data are not finite.");
    if (number === 0) return double("0x0.0p+0");
    const view = new DataView(new ArrayBuffer(8));
    view.setFloat64(0, number);
    const digits = view.getBigUint64(0).toString(16).padStart(16, "0");
    const exponent = parseInt(digits.slice(0, 3), 16) & 0x7ff;
    const [lead, power] = exponent ? ["1", exponent - 1023] : ["0", -1022];
    const sign = number < 0 ? "-" : "";
    return double(`${sign}0x${lead}.${digits.slice(3)}p${power < 0 ? "" : "+"}${power}`, "your data");
  }

  /* The samples of the certificate, or the reader's; where there are both they must be equal. */
  function samples(told, data) {
    const held = "x" in told;
    expect(held === "y" in told, "the certificate must hold both 'x' and 'y', or none of them.");
    const given = data !== undefined && data !== null;
    expect(held || given, "the certificate does not hold the data: give them too.");
    const own = (row) => Array.from(row, spelled);
    const mine = given && { x: data.x.map(own), y: own(data.y) };
    const { x, y } = held ? told : mine;
    const { samples: n, features: d } = told;
    const shaped = n > 0 && d > 0 && x.length === n && y.length === n && x.every((row) => row.length === d);
    expect(shaped, `the data must be ${n} samples with ${d} features and a label each.`);
    const lines = ({ x: rows, y: labels }) =>
      rows.map((row, i) => `${[...row, labels[i]].map((each) => each.spelled).join(",")}\n`).join("");
    const text = lines({ x, y });
    const same = !given || (mine.x.length === n && mine.y.length === n && lines(mine) === text);
    expect(same, "your data are not those of the certificate.");
    expect(sha256(text) === told.sha256, "the data are not those of the sha256 in the certificate.");
    return { x, y };
  }

  /* Everything as integers: x over 2^sx, G over 4^sx, a over 2^sa, alpha = slope/one. */
  class Problem {
    constructor(told, data) {
      const { x, y } = samples(told.data, data);
      this.square = told.loss === "square";
      const labels = y.every(({ above, shift }) => shift === 0 && abs(above) === 1n);
      expect(labels || this.square, "the labels must be -1 and +1.");
      const slope = Ratio.of(told.slope);
      expect(slope.above >= 0n && slope.above <= slope.below, "the slope must be from 0 to 1.");
      this.both = told.trained === "both layers";
      const second = told.second_layer;
      const fits = this.both ? second === null : second !== null && second.length === told.width;
      expect(fits, "'second_layer' must be null or 'width' numbers, as 'trained' says.");
      [this.n, this.d, this.width] = [x.length, x[0].length, told.width];
      [this.bias, this.loss, this.unknowns] = [told.bias, told.loss, UNKNOWNS[told.trained]];
      [this.slope, this.one] = [slope.above, slope.below];
      this.y = y.map(({ above }) => above); // the square loss has any targets instead
      this.targets = y.map(Ratio.of);
      const outputs = dyadic(second ?? []);
      [this.a, this.sa] = [outputs.values, outputs.shift];
      const inputs = dyadic(x.flat());
      this.sx = inputs.shift;
      const end = this.bias ? [1n << BigInt(this.sx)] : [];
      this.x = x.map((_, i) => [...inputs.values.slice(i * this.d, (i + 1) * this.d), ...end]);
      this.below = 1n << BigInt(2 * this.sx); // of G
      this.bits = 2 * bits(largest(this.x)); // of the entries of G, but for their sum
    }

    get linear() { return this.slope === this.one; }

    /* The Gram matrix; and |x_k|, rounded up. */
    get G() {
      if (!this.gram) affordable(this.n ** 2, this.bits);
      this.gram ??= products(this.x, this.x);
      return this.gram;
    }
    get lengths() {
      this.roots ??= this.G.map((row, k) => new Ratio(row[k], this.below).root());
      return this.roots;
    }
  }

  // ---------------------------------------------------------------------------------------------------------
  // The point: lam over den, mu over belowMu, t over belowT, c over belowC, q over belowQ

  class Point {
    constructor(p, told) {
      wellFormed(p, told);
      this.groups = told.groups.map((group) => group.neurons);
      this.patterns = told.groups.map((group) => group.pattern);
      this.support = told.support;
      this.signs = signsOf(p, told.groups);
      this.pairs = this.patterns.flatMap((pattern, g) =>
        this.support.filter((i) => pattern[i] === "0").map((i) => [g, i])); // the kinks with a number mu
      const fits = told.kinks.length === this.pairs.length;
      expect(fits, "'kinks' must be a number for each '0' of a support vector.");
      const unknowns = this.pairs.length + this.support.length + (told.amplitudes ?? []).length;
      const few = unknowns <= p.unknowns;
      expect(few, `it is too large: there are more than ${p.unknowns} unknowns.`);
      this.tau = told.tau === undefined ? null : Ratio.of(told.tau);
      this.den = told.denominator;
      this.kinks = told.kinks;
      this.lam = Array(p.n).fill(0n);
      this.support.forEach((i, place) => { this.lam[i] = told.multipliers[place]; });
      const slopes = { "+": p.one, "-": p.slope, 0: 0n };
      this.P = this.patterns.map((pattern) => Array.from(pattern, (side) => slopes[side]));
      this.mu = this.P.map((row) => row.map((slope, i) => (slope && this.lam[i] ? slope * this.lam[i] : 0n)));
      this.pairs.forEach(([g, i], place) => { this.mu[g][i] = this.kinks[place] * p.one; });
      this.c = p.both ? told.amplitudes : this.groups.map((group) => sum(group.map((j) => p.a[j] * p.a[j])));
      this.belowC = p.both ? this.den : 1n << BigInt(2 * p.sa);
      this.belowMu = this.den * p.one;
      this.belowT = this.belowMu * p.below;
      this.belowQ = this.belowT * p.one * this.belowC;
      this.bits = bits(largest([[this.den, ...this.lam, ...this.kinks, ...this.c]])) + bits(p.one) + p.bits;
      affordable(this.groups.length * p.n, this.bits); // these are the bits of t, but for sums
      this.t = dots(p, this, p.G, p.y, this.lam, this.kinks);
      this.q = margins(p, this, this.t, p.y, this.c);
      this.problem = p;
    }

    /* |v_g|^2 = sum_i y_i mu_gi t_gi, over belowMu belowT. */
    get squares() {
      const p = this.problem;
      this.squared ??= this.mu.map((row, g) => sum(this.support.map((i) => p.y[i] * row[i] * this.t[g][i])));
      return this.squared;
    }
  }

  /* t_gk = sum_i y_i mu_gi G_ik. The long numbers lam_i G_ik are shared by all groups: added, not
     multiplied. */
  function dots(p, point, G, y, lam, kinks) {
    const of = (side) => point.patterns.map((pattern) => point.support.filter((i) => pattern[i] === side));
    const [plus, minus] = [of("+"), of("-")];
    const t = point.patterns.map(() => Array(p.n));
    for (let k = 0; k < p.n; k += 1) {
      const terms = Array(p.n);
      for (const i of point.support) terms[i] = y[i] * lam[i] * G[i][k];
      for (let g = 0; g < t.length; g += 1) {
        let [above, below] = [0n, 0n];
        for (const i of plus[g]) above += terms[i];
        if (p.slope) for (const i of minus[g]) below += terms[i];
        t[g][k] = p.one * above + p.slope * below;
      }
    }
    point.pairs.forEach(([g, i], place) => {
      const pull = y[i] * kinks[place] * p.one;
      for (let k = 0; k < p.n; k += 1) t[g][k] += pull * G[i][k];
    });
    return t;
  }

  /* q_k = y_k sum_g c_g P_gk t_gk. */
  function margins(p, point, t, y, c) {
    const part = (g, k) => (point.P[g][k] ? c[g] * point.P[g][k] * t[g][k] : 0n);
    return p.G.map((_, k) => y[k] * sum(t.map((__, g) => part(g, k))));
  }

  /* Neurons and samples exist, and lists are as long as they must be. */
  function wellFormed(p, told) {
    const { groups, support } = told;
    expect(groups.length > 0 && groups.every((group) => group.neurons.length), "a group has no neuron.");
    expect(groups.every((group) => group.neurons.every((j) => j < p.width)), "a neuron does not exist.");
    const good = groups.every(({ pattern }) => pattern.length === p.n && /^[-+0]*$/.test(pattern));
    expect(good, `a pattern must be ${p.n} of the signs +, - and 0.`);
    const increasing = support.every((i, place) => place === 0 || support[place - 1] < i);
    expect(support.length > 0 && increasing, "the support must be increasing.");
    const within = support[support.length - 1] < p.n && told.multipliers.length === support.length;
    expect(within, "the support does not fit.");
    expect(told.denominator > 0n, "the denominator must be positive.");
    const signed = groups.every((group) => "sign" in group === p.both) && "amplitudes" in told === p.both;
    const fits = signed && (!p.both || told.amplitudes.length === groups.length);
    expect(fits, "groups must have signs and amplitudes if both layers are trained, else none.");
  }

  /* One sign of a_j in each group; every neuron with a_j != 0 is in one group, and no other neuron in any. */
  function signsOf(p, groups) {
    const all = groups.flatMap((group) => group.neurons);
    const held = new Set(all);
    demand(held.size === all.length, "a neuron is in two groups.");
    if (p.both) return groups.map((group) => BigInt(group.sign));
    demand(p.a.every((a, j) => a === 0n || held.has(j)), "a neuron with a_j != 0 is in no group.");
    const sign = (a) => (a > 0n) - (a < 0n);
    return groups.map(({ neurons }) => {
      const one = sign(p.a[neurons[0]]);
      const same = one !== 0 && neurons.every((j) => sign(p.a[j]) === one);
      demand(same, "the a_j of a group do not have one sign.");
      return BigInt(one);
    });
  }

  // ---------------------------------------------------------------------------------------------------------
  // Claim "kkt"

  /* The equations hold, exactly or for a true point nearby, and so do the inequalities there. Returns how
     far the true point may be: in any lam and mu, in any v_g as a vector, in any c_g relatively. */
  function kkt(p, point) {
    const plus = point.patterns.every((pattern) => /^[+]*$/.test(pattern));
    demand(!p.linear || plus, "with slope 1 every side must be '+'.");
    let errors;
    if (point.tau === null) {
      equationsHold(p, point);
      errors = { exact: true, mu: ZERO, v: ZERO, c: ZERO };
    } else {
      demand(point.tau.positive() && ONE.exceeds(point.tau), "tau must be between 0 and 1.");
      errors = p.both ? nearBoth(p, point) : nearFixed(p, point);
    }
    inequalitiesHold(p, point, errors);
    return errors;
  }

  /* q_k = 1 on the support; t_gk = 0 at every "0"; |v_g|^2 = 1 if both layers are trained. */
  function equationsHold(p, point) {
    for (const k of point.support) {
      demand(point.q[k] === point.belowQ, `the margin of the support vector ${k} is not 1.`);
    }
    point.patterns.forEach((pattern, g) => {
      for (let k = 0; k < p.n; k += 1) {
        demand(pattern[k] !== "0" || point.t[g][k] === 0n, `group ${g} is not at the kink of sample ${k}.`);
      }
      const balanced = !p.both || point.squares[g] === point.belowMu * point.belowT;
      demand(balanced, `the two layers of group ${g} are not balanced.`);
    });
  }

  /* lam > 0; c > 0; alpha lam <= mu <= lam at kinks; sign(a) t >= 0 at "+" and <= 0 at "-"; q >= 1. Not
     strictly: where t = 0 every slope from alpha to 1 is in Clarke's subdifferential; and t = 0 exactly for
     a sample that is orthogonal to all that v_g is made of. */
  function inequalitiesHold(p, point, errors) {
    const near = errors.mu.times(new Ratio(point.belowMu)).ceil();
    for (const i of point.support) {
      demand(p.one * point.lam[i] > near, `the multiplier of sample ${i} is not positive.`);
    }
    demand(least(point.c) > 0n && ONE.exceeds(errors.c), "an amplitude is not positive.");
    for (const [g, i] of point.pairs) {
      const mu = point.mu[g][i];
      const inside = p.slope * point.lam[i] + 2n * near <= mu && mu <= p.one * point.lam[i] - 2n * near;
      demand(inside, `the slope of group ${g} at the kink of sample ${i} is out of bounds.`);
    }
    const nearT = p.lengths.map((length) => errors.v.times(length).times(new Ratio(point.belowT)).ceil());
    const supports = new Set(point.support);
    point.patterns.forEach((pattern, g) => {
      if (p.linear || point.mu[g].every((mu) => mu === 0n)) return; // there is no kink; or v_g = 0
      for (let k = 0; k < p.n; k += 1) {
        const side = pattern[k];
        const ahead = point.signs[g] * point.t[g][k] * (side === "+" ? 1n : -1n);
        const right = side === "0" ? errors.exact || supports.has(k) : ahead >= nearT[k];
        const apart = (i) => p.G[i][k] === 0n || (pattern[i] !== "0" && point.P[g][i] === 0n);
        const good = right || point.support.every(apart);
        demand(good, `group ${g} is not shown to be at '${side}' of sample ${k}.`);
      }
    });
    for (let k = 0; k < p.n; k += 1) {
      const enough = supports.has(k) || surplus(p, point, errors, k) >= 0n;
      demand(enough, `the margin of sample ${k} is not shown to be at least 1.`);
    }
  }

  /* How far the margin of k is above 1, at least: q_k - 1 - sum_g c_g ((1 + e_c) |x_k| e_v + e_c |t_gk|). */
  function surplus(p, point, errors, k) {
    const more = errors.v.times(p.lengths[k]).times(ONE.plus(errors.c)).times(new Ratio(point.belowT)).ceil();
    const off = point.c.map((c, g) => c * (more + errors.c.times(new Ratio(abs(point.t[g][k]))).ceil()));
    return point.q[k] - point.belowQ - p.one * sum(off);
  }

  /* Second layer fixed. The equations c_g y_k t_gk = 0 (kinks) and q_k = 1 (support) are A u = b for u =
     (mu at kinks, lam); A is the Gram matrix of (a_j y_i x_i)_{j in g} for kinks and of (a_j P_ji y_i
     x_i)_j for the support. It is scaled by powers of two that bring its diagonal into [1/2, 2). If A >=
     tau there is one solution, at a distance of at most |r|/tau, and of |r|/sqrt(tau) for W, where r is
     the scaled residual. u'Au = sum_g c_g |sum_i m_gi y_i x_i|^2, m = mu at kinks and P lam elsewhere: so
     A >= tau if the Gram matrix of the support vectors, scaled likewise, is >= 4 tau. If not, A itself is
     looked at. */
  function nearFixed(p, point) {
    const { support: S, pairs, tau } = point;
    const groups = point.groups.map((_, g) => g);
    const kinks = pairs.length;
    const weighted = point.P.map((row, g) => row.map((slope) => slope * point.c[g]));
    const sample = [...pairs.map(([, i]) => i), ...S];
    const entry = (e, f) => { // f <= e
      const [i, k] = [sample[e], sample[f]];
      const inner = p.y[i] * p.y[k] * p.G[i][k];
      if (e < kinks) return pairs[e][0] === pairs[f][0] ? inner * point.c[pairs[e][0]] * p.one * p.one : 0n;
      if (f < kinks) return inner * weighted[pairs[f][0]][i] * p.one;
      let common = 0n;
      for (const g of groups) common += weighted[g][i] * point.P[g][k];
      return inner * common;
    };
    const places = 2 * (p.sx + p.sa + bits(p.one) - 1);
    const diagonal = sample.map((_, e) => entry(e, e));
    const size = diagonal.map((value) => half(bits(value) - places));
    const whole = () => {
      expect(sample.length <= COUPLED, `it is too large: more than ${COUPLED} coupled unknowns.`);
      const begin = new Map();
      pairs.forEach(([g], e) => { if (!begin.has(g)) begin.set(g, e); });
      const first = sample.map((_, e) => (e < kinks ? begin.get(pairs[e][0]) : 0));
      affordable(first.reduce((total, start, e) => total + e + 1 - start, 0), 120);
      const rows = sample.map((_, e) => Array.from({ length: e + 1 - first[e] }, (__, place) => {
        const f = first[e] + place;
        return moved(entry(e, f), 120 - places - size[e] - size[f]);
      }));
      return definite(rows, first, tau);
    };
    const long = S.map((i) => half(bits(p.G[i][i]) - 2 * p.sx));
    const near = (e, f) => moved(p.G[S[e]][S[f]], 120 - 2 * p.sx - long[e] - long[f]);
    const gram = S.map((_, e) => Array.from({ length: e + 1 }, (__, f) => near(e, f)));
    const four = tau.times(new Ratio(4n));
    const regular = least(diagonal) > 0n && (definite(gram, S.map(() => 0), four) || whole());
    demand(regular, "the equations are not shown to have one solution by this tau.");
    const residual = [
      ...pairs.map(([g, k]) => point.c[g] * point.t[g][k] * p.one),
      ...S.map((k) => point.q[k] - point.belowQ),
    ];
    const measured = (r, e) => new Ratio(abs(r) * UNIT, point.belowQ).over(Ratio.power(size[e])).ceil();
    const scaled = residual.map(measured);
    const length = new Ratio(isqrt(dot(scaled, scaled)) + 1n, UNIT);
    const weakest = new Ratio(point.belowC, least(point.c)); // c_g > 0: the a_j of a group are not 0
    const v = length.times(weakest.over(tau).root()); // sqrt(c_g) |v_g* - v_g| <= |W* - W|
    const mu = length.over(tau).over(Ratio.power(least(size)));
    return { exact: false, mu, v, c: ZERO };
  }

  /* Both layers trained. F = (q_k - 1 on the support, |v_g|^2 - 1, t_gk at kinks) = 0 in u = (lam, mu at
     kinks, c). Every unknown is measured by a power of two h of its size, every equation by one of its row
     of the Jacobian J. F is quadratic: |J(u') - J(u)| <= 2 B |u' - u|, B the length of F's homogeneous
     part with all coefficients positive, at u = h. If J^T J >= tau and 8 B |F| <= tau, then u - J^-1 F(u)
     maps the ball of radius 2 |F|/sqrt(tau) into itself. */
  function nearBoth(p, point) {
    const { support: S, pairs, kinks, tau, P, c, t } = point;
    const sized = [...S.map((i) => point.lam[i]), ...pairs.map(([, i]) => point.lam[i]), ...c];
    demand(least(sized) > 0n, "multipliers and amplitudes must be positive.");
    affordable(sized.length ** 2, 2 * point.bits);
    const h = sized.map((value) => 1n << BigInt(bits(value) - 1));
    const unit = {
      lam: Array(p.n).fill(0n),
      kinks: h.slice(S.length, S.length + pairs.length),
      c: h.slice(S.length + pairs.length),
    };
    S.forEach((i, place) => { unit.lam[i] = h[place]; });

    const values = (q, squares, rows) => [
      ...S.map((k) => q[k]), ...squares, ...pairs.map(([g, k]) => rows[g][k] * point.belowMu),
    ];
    const ones = [...S, ...c].map(() => point.belowQ);
    const F = values(point.q, point.squares, t).map((value, e) => value - (ones[e] ?? 0n));
    const positive = p.G.map((row) => row.map(abs));
    const plain = p.y.map(() => 1n);
    const bentT = dots(p, point, positive, plain, unit.lam, unit.kinks);
    const bentMu = P.map((row) => row.map((slope, i) => slope * unit.lam[i]));
    pairs.forEach(([g, i], place) => { bentMu[g][i] = unit.kinks[place] * p.one; });
    const bentSquares = bentMu.map((row, g) => dot(row, bentT[g]));
    const bends = values(margins(p, point, bentT, plain, unit.c), bentSquares, bentT);

    // The columns of J: derivatives by lam_i, by mu_gi, by c_g, times h.
    const signed = (i, k) => p.y[i] * p.y[k] * p.G[i][k];
    const common = (i, k) => sum(c.map((each, g) => each * P[g][i] * P[g][k]));
    const byLam = (i) => [
      ...S.map((k) => signed(i, k) * common(i, k)),
      ...c.map((_, g) => 2n * p.y[i] * P[g][i] * t[g][i]),
      ...pairs.map(([g, k]) => p.y[i] * P[g][i] * p.G[i][k] * point.belowMu),
    ];
    const byMu = ([g, i]) => [
      ...S.map((k) => signed(i, k) * c[g] * P[g][k] * p.one),
      ...c.map((_, other) => (other === g ? 2n * p.y[i] * p.one * t[g][i] : 0n)),
      ...pairs.map(([other, k]) => (other === g ? p.y[i] * p.one * p.G[i][k] * point.belowMu : 0n)),
    ];
    const byC = (_, g) => [...S.map((k) => p.y[k] * P[g][k] * t[g][k]), ...[...c, ...pairs].map(() => 0n)];
    const derivatives = [...S.map(byLam), ...pairs.map(byMu), ...c.map(byC)];
    const columns = derivatives.map((column, e) => column.map((value) => value * h[e]));

    const size = F.map((_, row) => bits(most(columns.map((column) => abs(column[row])))));
    const top = Math.max(...size);
    const scaled = (values) => values.map((value, r) => value << BigInt(top - size[r])); // over 2^top
    const J = columns.map(scaled);
    const A = products(J, J);
    const rows = A.map((row, e) => row.slice(0, e + 1).map((value) => moved(value, 120 - 2 * top)));
    demand(definite(rows, rows.map(() => 0), tau), "the equations are not shown to be regular by this tau.");
    const norm = (row) => new Ratio(dot(row, row), 1n << BigInt(2 * top)).root();
    const [length, bend] = [norm(scaled(F)), norm(scaled(bends))];
    const contracts = !new Ratio(8n).times(bend).times(length).exceeds(tau);
    demand(contracts, "no solution of the equations is shown to be next to these numbers.");
    const far = new Ratio(2n).times(length).times(ONE.over(tau).root());
    const mu = far.times(new Ratio(most(h.slice(0, S.length)), point.den));
    const lengths = new Ratio(sum(S.map((i) => p.lengths[i].above)), UNIT);
    return { exact: false, mu, v: mu.times(lengths), c: far };
  }

  /* The point in units: lam and mu with errors of at most eMu, t with eT[k]. */
  class Rounded {
    constructor(p, point, errors) {
      const unit = new Ratio(UNIT);
      this.lam = point.lam.map((value) => down(value * UNIT, point.den));
      this.mu = point.mu.map((row) => row.map((value) => (value ? down(value * UNIT, point.belowMu) : 0n)));
      this.t = point.t.map((row) => row.map((value) => down(value * UNIT, point.belowT)));
      this.eMu = errors.mu.times(unit).ceil() + 1n;
      this.eT = p.lengths.map((length) => errors.v.times(length).times(unit).ceil() + 1n);
      this.lengths = p.lengths.map((length) => length.times(unit).ceil());
    }
  }

  // ---------------------------------------------------------------------------------------------------------
  // Claim "stays"

  /* Every flow from |W - B| <= R keeps its friendly sides, and tends to the direction of U, the point. A pair is
     friendly if a_j y_i > 0. While the sides of these are kept the loss is convex, and the margins are at most
     <h_i, W>, h_i = (a_j y_i p_ji x_i)_j, for any slopes p in [alpha, 1]; at U they are equal. On the line
     V = B + T U, <h_i, V> = m_i + u_i T with u_i = 1 on the support S and u_i > 1 elsewhere (demanded), and it
     is above the margin by at most e_i = sum_{unfriendly j} |a_j| (s(z) - p_ji z), z = B_j.x_i. With time
     dt = L exp(T0 + T) dT, L = sum lam, b_i = L exp(T0 - m_i), convexity gives
       |W - V| <= R + I + delta T + sqrt(2 kappa T),
       delta = |sum_S b_i h_i - U|,   kappa = sum_i b_i (exp(e_i) - 1),
       I = sum_{i not in S} b_i |h_i|/(u_i - 1)   (logistic loss: + sum_i L exp(T0 - 2 m_i) |h_i|). */
  function stays(p, point, errors, claim) {
    demand(!p.both, "with both layers trained the flow is followed, not proved to stay.");
    const radius = Ratio.of(claim.radius);
    demand(radius.positive(), "the radius must be positive.");
    const near = new Rounded(p, point, errors);
    const place = placed(p, claim);
    const slopes = majorants(p, point);
    const level = Ratio.of(claim.level);
    const L = sum(near.lam);
    const weights = new Ratio(sum(point.c), point.belowC).root().times(new Ratio(UNIT)).ceil(); // |a|
    const supports = new Set(point.support);
    const line = { place, kappa: 0n, I: 0n, radius: radius.times(new Ratio(UNIT)).ceil() };
    const pulls = [];
    for (let i = 0; i < p.n; i += 1) {
      const [m, e] = margin(p, point, slopes, place, i);
      const [low, high] = exp(level.minus(m));
      const b = [(L * low) / UNIT, (L * high) / UNIT + 1n];
      pulls.push(b);
      if (e.above) line.kappa += (b[1] * (exp(e)[1] - UNIT)) / UNIT + 1n;
      const reach = (weights * near.lengths[i]) / UNIT + 1n; // |h_i| <= |a| |x_i|
      if (!supports.has(i)) {
        const over = surplus(p, point, errors, i);
        demand(over > 0n, `sample ${i} has no multiplier, but its margin is not above 1.`);
        line.I += (reach * b[1] * point.belowQ) / (over * UNIT) + 1n;
      }
      if (p.loss === "logistic") {
        const second = exp(level.minus(m.times(new Ratio(2n))))[1];
        line.I += (reach * ((L * second) / UNIT + 1n)) / UNIT + 1n;
      }
    }
    line.delta = mismatch(p, point, near, slopes, pulls);
    if (!p.linear) {
      point.groups.forEach((group, g) => group.forEach((j) => keepsSides(p, point, near, line, g, j)));
    }
    return `every gradient flow from within ${radius.told()} of the given state ends in this direction.`;
  }

  /* z_ji = B_j.x_i over `below`: B is given by coefficients of the samples, or by features. */
  function placed(p, claim) {
    const bySamples = claim.coordinates === "samples";
    const basis = bySamples ? p.G : p.x;
    const k = basis[0].length;
    const good = claim.start.length === p.width && claim.start.every((row) => row.length === k);
    expect(good, `'start' must be ${p.width} rows of ${k} numbers.`);
    const { values, shift } = dyadic(claim.start.flat());
    affordable(p.width * p.n, bits(largest([values])) + p.bits);
    const rows = claim.start.map((_, j) => values.slice(j * k, (j + 1) * k));
    return { z: products(rows, basis), below: 1n << BigInt(shift + (bySamples ? 2 : 1) * p.sx) };
  }

  /* The slopes p_gi over one 2^64: P, and at kinks mu/lam rounded inside [alpha, 1] (alpha without a
     multiplier). */
  function majorants(p, point) {
    const [flat, steep] = [p.slope << 64n, p.one << 64n];
    return point.patterns.map((pattern, g) => Array.from(pattern, (side, i) => {
      if (side !== "0") return point.P[g][i] << 64n;
      const slope = point.lam[i] > 0n ? down(point.mu[g][i] << 64n, point.lam[i]) : 0n;
      return slope < flat ? flat : slope > steep ? steep : slope;
    }));
  }

  /* m_i = sum_j a_j y_i p_ji z_ji, and e_i = sum_{unfriendly j} |a_j| (s(z_ji) - p_ji z_ji): how far it is
     too much. */
  function margin(p, point, slopes, { z, below }, i) {
    let [m, e] = [0n, 0n];
    point.groups.forEach((group, g) => group.forEach((j) => {
      const signed = p.a[j] * p.y[i];
      const here = z[j][i];
      m += signed * slopes[g][i] * here;
      if (signed < 0n) e -= signed * (((here > 0n ? p.one : p.slope) << 64n) - slopes[g][i]) * here;
    }));
    const over = (below * p.one) << BigInt(64 + p.sa);
    return [new Ratio(m, over), new Ratio(e, over)];
  }

  /* delta^2 = sum_g c_g |sum_S y_i (b_i p_gi - mu_gi) x_i|^2: at the lower ends of b, and the rest by
     lengths. */
  function mismatch(p, point, near, slopes, pulls) {
    const S = point.support;
    const unknown = (i) => pulls[i][1] - pulls[i][0] + near.eMu + 2n;
    const off = sum(S.map((i) => (unknown(i) * near.lengths[i]) / UNIT + 1n));
    const inner = S.map((i) => S.map((k) => p.G[i][k]));
    const lengths = slopes.map((row, g) => {
      const pull = S.map((i) => p.y[i] * (down(pulls[i][0] * row[i], p.one << 64n) - near.mu[g][i]));
      return isqrt(quadratic(pull, inner) / p.below) + 1n + off;
    });
    return isqrt(up(sum(lengths.map((length, g) => point.c[g] * length * length)), point.belowC)) + 1n;
  }

  /* Every friendly pair (j, i), on the side s of its kink, has one of
     (a) v = s U_j.x_i - |x_i| delta > 0 and s B_j.x_i - |x_i| (R + I) > |x_i|^2 kappa / (2 v);
     (b) s B_j.x_i > |x_i| R, and every sample k that can pull on j moves w_j.x_i towards s: s x_k.x_i >= 0 for
         friendly k (those at "-" with alpha = 0 do not pull), <= 0 for unfriendly k;
     (c) s B_j.x_i > |x_i| R, no friendly sample pulls on j, and B_j.x_k <= 0 for all unfriendly k: these can
         only bring w_j nearer to B_j. */
  function keepsSides(p, point, near, { place, delta, kappa, I, radius }, g, j) {
    const [a, z, pattern] = [p.a[j], place.z[j], point.patterns[g]];
    const friendly = p.y.map((label) => a * label > 0n);
    const pulls = friendly.map((own, k) => !own || pattern[k] === "+" || p.slope > 0n);
    const alone = friendly.every((own, k) => (own ? !pulls[k] : z[k] <= 0n)); // (c)
    for (let i = 0; i < p.n; i += 1) {
      if (!friendly[i]) continue;
      demand(pattern[i] !== "0", `neuron ${j} is at the kink of its friendly sample ${i}.`);
      const s = pattern[i] === "+" ? 1n : -1n;
      const length = near.lengths[i];
      const here = down(s * z[i] * UNIT, place.below);
      const away = (s * a * near.t[g][i] - abs(a) * near.eT[i]) >> BigInt(p.sa);
      const speed = away - (length * delta) / UNIT - 1n;
      const room = here - (length * (radius + I)) / UNIT - 1n;
      if (speed > 0n && 2n * speed * room > (length * length * kappa) / UNIT + 1n) continue; // (a)
      const ahead = here > (length * radius) / UNIT + 1n;
      const helped = () => friendly.every((own, k) => !pulls[k] || (own ? s : -s) * p.G[i][k] >= 0n); // (b)
      demand(ahead && (alone || helped()), `neuron ${j} may cross the kink of its friendly sample ${i}.`);
    }
  }

  // ---------------------------------------------------------------------------------------------------------
  // Claim "rest"

  /* Every flow from |W - B| <= R comes to rest in a minimum of the loss sum_i l(q_i), the second layer fixed. Here
     q_i = e_i f(x_i), with e = y, or for the square loss the sign of y_i - f(x_i), which it must keep, or 0 where
     it may not. A pair is friendly if a_j e_i >= 0; while these keep their sides the loss is convex. Go on with this
     convex function everywhere: no flow gets farther from a minimum W* of it, so that from |W - B| <= R all of it is
     within R + 2 away of B, if |W* - B| <= away.

     Such a W* exists. Take neurons with one row P of slopes together, V_g = sum a_j w_j, and h_i = (e_i P_gi x_i)_g.
     Then q_i <= <h_i, V> - sum k_gi |V_g.x_i| over the pairs "0" (unfriendly; any P in [alpha, 1], k = min(P - alpha,
     1 - P)), with equality at B0, the state at these kinks that is nearest to B. If V changes by D, |D| = delta,
     w_i <= l'' and t_i <= -l' within that distance, the loss grows by at least <g, D> + D'MD/2, g = sum_i l'_i h_i,
       M = sum_i w_i h_i h_i' + sum_{"0"} min(stiffness, 2 t_i k_gi/(|x_i| delta)) x_i x_i'.
     M >= tau and tau delta > 2 |g| make that positive: a minimum V* is inside the ball. Then B0_j + a_j (V* - V0)_g /
     sum a^2 has the same margins. Columns of x that span all others are enough for D, each in a unit of its size. */
  function rest(p, claim) {
    expect(!p.both, "this claim is for a fixed second layer.");
    const near = resting(p, claim);
    if (near.fits) fitted(near);
    else {
      distanceToKinks(near);
      pulled(near);
      minimum(near);
    }
    staysOnSides(near);
    const [radius, lower, upper] = [claim.radius, claim.lower, claim.upper].map((each) => Ratio.of(each).told());
    const told = `every gradient flow from within ${radius} of the given state comes to rest in a minimum, `
      + `where the loss is from ${lower} to ${upper}, summed over samples`;
    if (p.square) return `${told}.`;
    const wrong = near.samples.filter(({ most: top }) => top < 0n).length;
    demand(wrong === claim.wrong, `${wrong} samples are shown to be misclassified.`);
    return `${told}; at least ${wrong} of ${p.n} samples are misclassified there.`;
  }

  /* The claim in integers: z = B_j.x_i over z.below, slopes P over one, delta and the radius in units. */
  function resting(p, claim) {
    const positive = ["delta", "radius", "tau", "independent", "stiffness"].every((key) => claim[key].above > 0n);
    demand(positive, "radius, delta, tau, independent and stiffness must be positive.");
    const suits = p.square ? "signs" in claim && !("wrong" in claim) : "wrong" in claim && !("signs" in claim);
    expect(suits, "'signs' or 'wrong' do not fit the loss.");
    const signs = claim.signs ?? p.y.map((y) => (y > 0n ? "+" : "-")).join("");
    expect(signs.length === p.n && /^[-+0]*$/.test(signs), `'signs' must be ${p.n} of the signs +, - and 0.`);
    const units = (number) => Ratio.of(number).times(new Ratio(UNIT)).ceil();
    const near = { p, claim, e: Array.from(signs, (sign) => ({ "+": 1n, "-": -1n, 0: 0n })[sign]) };
    near.fits = p.square && near.e.every((e) => e === 0n) && claim.features.length === 0;
    [near.delta, near.radius] = [units(claim.delta), units(claim.radius)];
    [near.tau, near.independent] = [Ratio.of(claim.tau), Ratio.of(claim.independent)];
    near.place = placed(p, claim);
    grouped(near);
    measured(near);
    return near;
  }

  /* Groups hold each neuron with a_j != 0 once; at "0" of a group all its neurons are unfriendly. */
  function grouped(near) {
    const { p, e } = near;
    const { groups } = near.claim;
    for (const { pattern, slopes, neurons } of groups) {
      const zeros = pattern.split("0").length - 1;
      const good = pattern.length === p.n && /^[-+0]*$/.test(pattern) && slopes.length === zeros;
      expect(good, `a pattern must be ${p.n} of the signs +, - and 0, with a slope for each 0.`);
      expect(neurons.length > 0, "a group has no neuron.");
    }
    const all = groups.flatMap(({ neurons }) => neurons);
    const held = new Set(all);
    demand(held.size === all.length, "a neuron is in two groups.");
    const whole = all.every((j) => j < p.width && p.a[j] !== 0n) && p.a.every((a, j) => a === 0n || held.has(j));
    demand(whole, "the groups do not hold the neurons with a_j != 0.");
    const every = groups.flatMap(({ slopes }) => slopes);
    const alpha = { above: p.slope, shift: bits(p.one) - 1 };
    const { values: [flat, steep, ...own], shift } = dyadic([alpha, { above: 1n, shift: 0 }, ...every]);
    demand(own.every((slope) => flat <= slope && slope <= steep), "a slope at a kink is out of bounds.");
    const above = groups.every(({ pattern }) => /^[+]*$/.test(pattern));
    demand(!p.linear || above, "with slope 1 every side must be '+'.");
    let next = 0;
    near.groups = groups.map(({ neurons, pattern }) => {
      const P = Array.from(pattern, (side) => (side === "0" ? own[next++] : side === "+" ? steep : flat));
      const kinks = Array.from(pattern).flatMap((side, i) => (side === "0" ? [i] : []));
      for (const i of kinks) {
        const unfriendly = neurons.every((j) => p.a[j] * e[i] < 0n);
        demand(unfriendly, `a neuron is at the kink of its friendly sample ${i}.`);
      }
      const c = sum(neurons.map((j) => p.a[j] * p.a[j]));
      return { neurons, pattern, P, kinks, c, live: P.some((slope) => slope !== 0n) };
    });
    near.live = near.groups.filter(({ live }) => live);
    [near.flat, near.one, near.shift] = [flat, steep, shift];
  }

  /* The columns, each over a power of two of its size; |x_i| (long), in these columns (short), and |P_i| (steep). */
  function measured(near) {
    const { p, claim: { features } } = near;
    const width = p.x[0].length;
    const good = features.every((f, k) => f < width && (k === 0 || features[k - 1] < f));
    expect(good, `'features' must be increasing numbers below ${width}.`);
    if (near.live.length && features.length < width && !near.fits) {
      const columns = p.x[0].map((_, f) => p.x.map((row) => row[f]));
      demand(rankOf(columns, 0n, features.length) <= features.length, "these features are not enough.");
    }
    const size = features.map((f) => bits(most(p.x.map((row) => abs(row[f])))));
    const top = Math.max(0, ...size);
    near.x = p.x.map((row) => features.map((f, k) => row[f] << BigInt(top - size[k]))); // over 2^top
    near.top = top;
    near.size = size.map((each) => each - p.sx);
    const length = (row, places) => isqrt((dot(row, row) * UNIT * UNIT) >> BigInt(2 * places)) + 1n;
    near.short = near.x.map((row) => length(row, top));
    near.long = p.x.map((row) => (row.some((value) => value !== 0n) ? length(row, p.sx) : 0n));
    near.steep = p.x.map((_, i) =>
      isqrt((sum(near.live.map(({ P }) => P[i] * P[i])) * UNIT * UNIT) / (near.one * near.one)) + 1n);
  }

  /* |B0 - B|^2 <= sum (w_j.x_i)^2/independent over the kinks "0", whose x_i (equal ones once) have a Gram matrix
     >= independent, scaled; as much in V, times the largest |a| of a group. */
  function distanceToKinks(near) {
    const { p, live, place: { z, below } } = near;
    let total = ZERO;
    for (const group of live) {
      const different = [...new Map(group.kinks.map((i) => [p.x[i].join(), i])).values()];
      const inner = (i, k) => dot(p.x[i], p.x[k]);
      const size = different.map((i) => half(bits(inner(i, i)) - 2 * p.sx));
      const gram = different.map((i, e) => different.slice(0, e + 1).map((k, f) =>
        moved(inner(i, k), 120 - 2 * p.sx - size[e] - size[f])));
      const apart = definite(gram, gram.map(() => 0), near.independent);
      demand(apart, "the kinks of a group are not independent.");
      different.forEach((i, e) => {
        const squares = sum(group.neurons.map((j) => z[j][i] * z[j][i]));
        total = rounded(total.plus(new Ratio(squares, below * below).over(Ratio.power(2 * size[e]))));
      });
    }
    const unit = new Ratio(UNIT);
    near.off = total.positive() ? total.over(near.independent).root().times(unit).ceil() : 0n;
    const weight = total.positive() ? new Ratio(most(live.map(({ c }) => c)), 1n << BigInt(2 * p.sa)).root() : ZERO;
    near.offV = total.positive() ? (near.off * weight.times(unit).ceil()) / UNIT + 1n : 0n;
    const least1 = () => new Ratio(1n << BigInt(2 * p.sa), least(live.map(({ c }) => c))).root();
    const change = live.length
      ? new Ratio(near.delta).times(least1()).over(Ratio.power(Math.min(...near.size))).ceil() : 0n;
    near.away = near.off + change;
  }

  /* For every sample: l and -l' at B0 (from, to), and in the ball the largest q, the least w = l'' and t = -l'. */
  function pulled(near) {
    const { p, e, live, place: { z, below }, steep, short, long } = near;
    const over = (below * near.one) << BigInt(p.sa);
    const moves = live.map(({ neurons }) => p.x.map((_, i) => sum(neurons.map((j) => p.a[j] * z[j][i]))));
    near.samples = p.x.map((_, i) => {
      const value = (e[i] || 1n) * sum(live.map(({ P }, g) => P[i] * moves[g][i])) * UNIT;
      const off = near.offV ? (steep[i] * ((long[i] * near.offV) / UNIT + 1n)) / UNIT + 1n : 0n;
      const far = off + (steep[i] * ((short[i] * near.delta) / UNIT + 1n)) / UNIT + 1n;
      const [low, high] = [down(value, over) - off, up(value, over) + off];
      const here = lossAround(near, i, low, high);
      const there = lossAround(near, i, low - far, high + far);
      return { loss: here.loss(), pull: here.pull, bend: there.bend, least: there.pull[0], most: high + far };
    });
  }

  /* A short number that is not below, and nearly the same. */
  function rounded(number) { return new Ratio(number.times(new Ratio(UNIT ** 3n)).ceil(), UNIT ** 3n); }

  /* Of l(q), low <= q <= high, in units: bounds of itself and of -l', and the least l''. */
  function lossAround({ p, e }, i, low, high) {
    if (p.square) {
      const goal = p.targets[i].times(new Ratio((e[i] || 1n) * UNIT));
      const pull = [goal.floor() - high, goal.ceil() - low];
      demand(e[i] === 0n || pull[0] > 0n, `the residual of sample ${i} may change its sign.`);
      const squares = pull.map((end) => end * end);
      const inside = pull[0] <= 0n && pull[1] >= 0n;
      const loss = () => [inside ? 0n : least(squares) / (2n * UNIT), most(squares) / (2n * UNIT) + 1n];
      return { loss, pull, bend: UNIT };
    }
    const pull = [exp(new Ratio(-high, UNIT))[0], exp(new Ratio(-low, UNIT))[1]];
    if (p.loss === "exponential") return { loss: () => pull, pull, bend: pull[0] };
    const ends = [(pull[0] * UNIT) / (UNIT + pull[0]), (pull[1] * UNIT) / (UNIT + pull[1]) + 1n];
    const bend = least(ends.map((t) => t * (UNIT - t))) / UNIT;
    return { loss: () => [logLoss(high)[0], logLoss(low)[1]], pull: ends, bend: bend > 0n ? bend : 0n };
  }

  /* [low, high] around log(1 + e^-q), in units: log(1 + t) = 2 artanh(u), u = t/(2 + t), t = e^-|q| <= 1. */
  function logLoss(q) {
    const ends = exp(new Ratio(-abs(q), UNIT));
    return ends.map((t, round) => {
      const more = BigInt(round);
      const u = (t * UNIT) / (2n * UNIT + t) + more;
      const square = (u * u) / UNIT + more;
      let term = 2n * u;
      let total = 0n;
      for (let order = 1n; order < 220n; order += 2n) {
        total += term / order + more;
        term = (term * square) / UNIT + more;
      }
      return total + term * more + (q < 0n ? -q : 0n); // all further terms are less than the next
    });
  }

  /* tau delta > 2 |g|; the loss is from loss(B0) - |g| delta to loss(B0); and M >= tau. */
  function minimum(near) {
    const { p, e, live, samples: each, claim } = near;
    const width = near.x[0].length;
    expect(live.length * width <= COUPLED, `it is too large: more than ${COUPLED} coupled unknowns.`);
    let g = 0n;
    if (live.length) {
      const rough = sum(each.map(({ pull }, i) =>
        (((pull[1] - pull[0]) * near.steep[i]) / UNIT + 1n) * near.short[i] / UNIT + 1n));
      const signed = live.map(({ P }) => each.map(({ pull }, i) => (e[i] || 1n) * pull[0] * P[i]));
      const columns = Array.from({ length: width }, (_, f) => near.x.map((row) => row[f]));
      const squares = sum(products(signed, columns).flat().map((value) => value * value));
      g = isqrt(squares / (near.one << BigInt(near.top)) ** 2n) + 1n + rough;
      const steeper = near.tau.times(new Ratio(near.delta)).exceeds(new Ratio(2n * g));
      demand(steeper, "the gradient is too large for this ball.");
    }
    const [low, high] = [0, 1].map((end) => sum(each.map(({ loss }) => loss[end])));
    const floor = new Ratio(low - (g * near.delta) / UNIT - 1n, UNIT);
    demand(!Ratio.of(claim.lower).exceeds(floor), "the loss may be below its lower bound.");
    const within = !new Ratio(high, UNIT).exceeds(Ratio.of(claim.upper));
    demand(within, "the loss may be above its upper bound.");
    const convex = definite(...curvature(near), near.tau);
    demand(convex, "the loss is not shown to be convex enough by this tau.");
  }

  /* M in units of 2^-120. Its block of two groups is sum_i weight_i x_i x_i': the weights of all blocks, times the
     products of the features of all samples. Weights are in units of 2^-100, rounded down. */
  function curvature(near) {
    const { live, samples: each } = near;
    const places = 100;
    const width = near.x[0].length;
    const pairs = Array.from({ length: width }, (_, a) => Array.from({ length: a + 1 }, (__, b) => [a, b])).flat();
    affordable(near.x.length * pairs.length, 2 * near.top + 2 * near.shift + places);
    affordable((live.length * width) ** 2 / 2, 120);
    const outer = pairs.map(([a, b]) => near.x.map((row) => row[a] * row[b]));
    const bends = each.map(({ bend }) => bend >> BigInt(PLACES - places));
    const rows = Array.from({ length: live.length * width }, () => []);
    const scale = 120 - places - 2 * near.top - 2 * near.shift;
    live.forEach((group, e) => {
      const weights = live.slice(0, e + 1).map(({ P }) => bends.map((bend, i) => bend * group.P[i] * P[i]));
      sharpness(near, group, places).forEach((more, i) => { weights[e][i] += more; });
      const blocks = width ? products(weights, outer) : [];
      blocks.forEach((block, f) => {
        const values = block.map((value) => moved(value, scale));
        for (let a = 0; a < width; a += 1) {
          for (let b = 0; b < (e === f ? a + 1 : width); b += 1) {
            const [one, other] = a < b ? [b, a] : [a, b];
            rows[e * width + a].push(values[(one * (one + 1)) / 2 + other]);
          }
        }
      });
    });
    return [rows, rows.map(() => 0)];
  }

  /* min(stiffness, 2 t_i k/(|x_i| delta)) at the pairs "0" of a group, over 2^places one^2. */
  function sharpness(near, { P, kinks }, places) {
    const { flat, one, short, delta, samples: each } = near;
    const bound = Ratio.of(near.claim.stiffness).times(Ratio.power(places)).floor();
    const found = P.map(() => 0n);
    for (const i of kinks) {
      if (short[i] <= 1n) continue;
      const k = P[i] - flat < one - P[i] ? P[i] - flat : one - P[i];
      const sharp = ((2n * each[i].least * k * UNIT) << BigInt(places)) / (one * short[i] * delta);
      found[i] = (sharp < bound ? sharp : bound) * one * one;
    }
    return found;
  }

  /* All residuals may change their signs, and all sides are kept: f = <h_i, W> is linear. If K_ik = <h_i, h_k> >= tau,
     scaled by powers of two, some W* with f(x_i) = y_i for all i is at most |r|/sqrt(tau) away, r = y - f at B. */
  function fitted(near) {
    const { p, groups, claim, place: { z, below } } = near;
    const places = 2 * (p.sx + p.sa + near.shift);
    const K = p.G.map((row, i) => row.slice(0, i + 1).map((inner, k) =>
      inner * sum(groups.map(({ P, c }) => c * P[i] * P[k]))));
    const size = K.map((row, i) => half(bits(row[i]) - places));
    const rows = K.map((row, i) => row.map((value, k) => moved(value, 120 - places - size[i] - size[k])));
    const regular = definite(rows, rows.map(() => 0), near.tau);
    demand(regular, "the samples are not shown to be fitted next to B.");
    const over = (below * near.one) << BigInt(p.sa);
    let total = ZERO;
    for (let i = 0; i < p.n; i += 1) {
      const f = sum(groups.map(({ neurons, P }) => P[i] * sum(neurons.map((j) => p.a[j] * z[j][i]))));
      const r = p.targets[i].minus(new Ratio(f, over));
      const square = r.times(r).over(Ratio.power(2 * size[i]));
      total = rounded(total.plus(square));
    }
    near.away = total.over(near.tau).root().times(new Ratio(UNIT)).ceil();
    const zero = claim.lower.above <= 0n && claim.upper.above >= 0n;
    demand(zero, "the loss is 0 there, which must be in its bounds.");
  }

  /* Friendly pairs are more than R + 2 away from their kinks, other pairs not "0" more than away; those of neurons
     without slopes are not above theirs. And residuals that have a sign keep it: f(x_i) changes by at most |a| |x_i|
     times a distance from B0. */
  function staysOnSides(near) {
    const { p, e, radius, away, long, place: { z, below } } = near;
    const far = radius + 2n * away;
    for (const { neurons, pattern, live } of p.linear ? [] : near.groups) {
      for (const j of neurons) {
        for (let i = 0; i < p.n; i += 1) {
          if (long[i] === 0n || (pattern[i] === "0" && live)) continue;
          const friendly = p.a[j] * e[i] >= 0n;
          const ahead = (pattern[i] === "+" ? z[j][i] : -z[j][i]) * UNIT;
          const needed = (long[i] * (friendly ? far : away)) / UNIT + 1n;
          const good = friendly || live ? ahead > needed * below : ahead >= 0n;
          demand(good, `neuron ${j} is not shown to stay at '${pattern[i]}' of sample ${i}.`);
        }
      }
    }
    const weight = new Ratio(sum(p.a.map((a) => a * a)), 1n << BigInt(2 * p.sa)).root().times(new Ratio(UNIT)).ceil();
    for (let i = 0; i < p.n; i += 1) {
      if (!p.square || e[i] === 0n) continue;
      const reach = (weight * ((long[i] * (radius + 3n * away)) / UNIT + 1n)) / UNIT + 1n;
      demand(near.samples[i].pull[0] > reach, `the residual of sample ${i} may change its sign.`);
    }
  }

  // ---------------------------------------------------------------------------------------------------------
  // The other claims

  /* N_gh = v_g.v_h without the bias, sum_i y_i mu_gi (t_hi - sum_k y_k mu_hk), in units; and how far it
     may be off. */
  function innerProducts(p, point, errors) {
    if (point.inner) return point.inner;
    affordable(point.groups.length ** 2, 640);
    const near = new Rounded(p, point, errors);
    const pulls = near.mu.map((row) => row.map((value, i) => p.y[i] * value));
    const t = near.t.map((row, g) => (p.bias ? row.map((value) => value - sum(pulls[g])) : row));
    const n = BigInt(p.n);
    const off = (largest(near.mu) + near.eMu) * (most(near.eT) + n * near.eMu) + largest(t) * near.eMu;
    const N = products(pulls, t).map((row) => row.map((value) => value >> BigInt(PLACES)));
    N.forEach((row, g) => row.forEach((_, h) => { if (h > g) row[h] = N[h][g]; }));
    point.inner = { N, error: new Ratio((n * off) / UNIT + 2n, UNIT) };
    return point.inner;
  }

  /* The rank of W without biases is r. It is that of t without biases. At least r: by elimination modulo a
     prime if the point is exact; else N of r groups, scaled, has no eigenvalue below tau, and tau is above
     its error. At most r: the number of groups, support vectors or features, elimination if that is not too
     much work, or `rankAtMost`. */
  function rank(p, point, errors, claim) {
    const r = claim.rank;
    let highest = Math.min(point.t.length, point.support.length, p.d);
    let shown;
    if (errors.exact) {
      const bias = point.mu.map((row) => (p.bias ? dot(p.y, row) * p.below : 0n));
      const t = point.t.map((row, g) => row.map((value) => value - bias[g]));
      shown = rankOf(t, PRIME) >= r;
      const longest = (r + 1) * bits(largest(t)); // as minors are
      const work = (r + 1) * t.length * p.n * longest ** 2;
      if (shown && r < highest && work < WORK) highest = rankOf(t, 0n, r);
    } else {
      const groups = claim.groups ?? [];
      expect(groups.length === r && groups.every((g) => g < point.t.length), `'groups' must be ${r} groups.`);
      const { N, error } = innerProducts(p, point, errors);
      const size = groups.map((g) => half(bits(N[g][g]) - PLACES));
      const scaled = (e, f) => moved(N[groups[e]][groups[f]], 120 - PLACES - size[e] - size[f]);
      const rows = groups.map((_, e) => groups.slice(0, e + 1).map((__, f) => scaled(e, f)));
      const tau = claim.tau ? Ratio.of(claim.tau) : ZERO;
      const smallest = size.length ? Math.min(...size) : 0;
      const off = new Ratio(BigInt(r)).times(error).over(Ratio.power(2 * smallest));
      shown = tau.exceeds(off) && definite(rows, rows.map(() => 0), tau);
    }
    demand(shown, `the rank is not shown to be at least ${r}.`);
    demand(r >= highest || r >= rankAtMost(point), `the rank is not shown to be at most ${r}.`);
    return [new Ratio(BigInt(r)), new Ratio(BigInt(r))];
  }

  /* A bound for the number of independent v_g, added up over classes of groups: all in one, by sign, or by
     kinks. In a class no v_g has a part in the span of the samples at whose kinks all its groups are.
     Samples at the kinks of some of them count 1 each, and the others as many as the rank of their slopes
     P. */
  function rankAtMost(point) {
    const alive = point.mu.flatMap((row, g) => (row.some((value) => value !== 0n) ? [g] : []));
    const kinks = (g) => point.support.filter((i) => point.patterns[g][i] === "0");
    const bounds = [() => "", (g) => String(point.signs[g]), (g) => kinks(g).join()].map((name) => {
      const classes = new Map();
      for (const g of alive) {
        if (!classes.has(name(g))) classes.set(name(g), []);
        classes.get(name(g)).push(g);
      }
      return [...classes.values()].reduce((total, own) => {
        const held = (i) => own.filter((g) => point.patterns[g][i] === "0").length;
        const free = point.support.filter((i) => held(i) === 0);
        const partly = point.support.filter((i) => held(i) > 0 && held(i) < own.length);
        return total + partly.length + rankOf(own.map((g) => free.map((i) => point.P[g][i])));
      }, 0);
    });
    return Math.min(...bounds);
  }

  /* sum_g c_g N_gg / s^2 is from `lower` to `upper`, s the largest singular value of W without biases: s^2
     >= e'Ne / e'C^-1 e for every vector e, and s^2 <= `largest` if largest C - C N C has no negative
     eigenvalue. An error d of N changes these and the numerator by at most d sum_g c_g, one of C by a
     factor. */
  function stableRank(p, point, errors, claim) {
    const { c, belowC } = point;
    const { N, error } = innerProducts(p, point, errors);
    expect(claim.vector.length === c.length, "'vector' must have one number for each group.");
    const { values: e } = dyadic(claim.vector);
    const bound = Ratio.of(claim.largest);
    const off = error.times(new Ratio(sum(c), belowC));
    const given = bound.positive() && e.some((value) => value !== 0n);
    demand(given, "the largest singular value and its vector must not be zero.");
    const parts = e.map((value, g) => new Ratio(value * value * belowC, c[g]));
    const weight = parts.reduce((one, other) => one.plus(other));
    const smallest = new Ratio(sum(e.map((value, g) => value * dot(e, N[g]))), UNIT).over(weight);
    demand(smallest.exceeds(off), "the largest singular value is not shown to be positive.");
    const diagonal = c.map((each) => bound.times(new Ratio(each, belowC)));
    const size = diagonal.map((each) => half(bits(each.times(new Ratio(UNIT)).floor()) - PLACES));
    const rows = c.map((_, g) => N[g].slice(0, g + 1).map((value, h) => {
      const places = Ratio.power(120 - PLACES - size[g] - size[h]);
      return down(-value * c[g] * c[h] * places.above, belowC * belowC * places.below);
    }));
    rows.forEach((row, g) => { row[g] += diagonal[g].times(Ratio.power(120 - 2 * size[g])).floor(); });
    demand(definite(rows, rows.map(() => 0), Ratio.power(-40)), "the largest singular value may be larger.");
    const trace = new Ratio(sum(c.map((each, g) => each * N[g][g])), belowC * UNIT);
    const ratio = ONE.plus(errors.c).over(ONE.minus(errors.c));
    const [lower, upper] = [Ratio.of(claim.lower), Ratio.of(claim.upper)];
    const low = !lower.times(ratio).exceeds(trace.minus(off).over(bound.plus(off)));
    demand(low, "the stable rank may be below its lower bound.");
    const high = !ratio.times(trace.plus(off)).over(smallest.minus(off)).exceeds(upper);
    demand(high, "the stable rank may be above its upper bound.");
    return [lower, upper];
  }

  /* No first layer with margins of at least 1 is shorter (second layer fixed; with slope 1 every KKT point
     is optimal). All such W' have |W'|^2/2 >= sum lam - (S+ M+^2 + S- M-^2)/2, S+- the sum of a_j^2 by
     sign and M+- the maximum of +-sum_i lam_i y_i s(u.x_i) over |u| <= 1. Since |W|^2 = sum lam = sum c_g
     |v_g|^2, W is optimal if M+- = |v_g| for every group of that sign. M+ is the largest distance of a
     corner sum_{y_i = 1} p_i lam_i x_i, p_i = alpha or 1, from the set of all sum_{y_i = -1} p_i lam_i
     x_i, alpha <= p_i <= 1. For a corner with the pattern of a group, the group's own slopes are a point
     of that set at the distance |v_g|; for all other corners the claim gives slopes. */
  function optimal(p, point, errors, claim) {
    demand(!p.both && errors.exact, "optimality is for exact points with a fixed second layer.");
    const near = new Rounded(p, point, errors);
    const flat = (p.slope * UNIT) / p.one;
    const rounding = (i) => 2n * (near.lengths[i] / UNIT + 1n) * (near.lam[i] / UNIT + 2n);
    const off = sum(point.support.map(rounding)) + 2n;
    for (const [sign, name] of [[1n, "+"], [-1n, "-"]]) {
      const groups = p.linear ? [] : point.signs.flatMap((each, g) => (each === sign ? [g] : []));
      const own = point.support.filter((i) => p.y[i] === sign);
      const others = point.support.filter((i) => p.y[i] !== sign);
      expect(!groups.length || own.length <= CORNERS, `a class has more than ${CORNERS} support vectors.`);
      const corners = groups.length ? 2 ** own.length : 0;
      expect(claim[name].length === corners, `'${name}' must have an entry for each corner.`);
      if (!groups.length) continue;
      const square = point.squares[groups[0]];
      const same = groups.every((g) => point.squares[g] === square);
      demand(same, `groups of the sign '${name}' differ in |v_g|.`);
      const length = isqrt((square * UNIT * UNIT) / (point.belowMu * point.belowT));
      const known = new Set(groups.map((g) => own.map((i) => point.patterns[g][i]).join("")));
      const inner = [...own, ...others].map((i) => [...own, ...others].map((k) => p.G[i][k]));
      claim[name].forEach((slopes, number) => {
        const steep = own.map((_, bit) => ((number >> bit) & 1) === 1);
        if (known.has(steep.map((up) => (up ? "+" : "-")).join(""))) return;
        const good = slopes !== null && slopes.length === others.length;
        expect(good, `corner ${number} of '${name}' must have ${others.length} slopes.`);
        const within = (slope) => p.slope * slope.below <= slope.above * p.one && slope.above <= slope.below;
        const inside = slopes.map(Ratio.of).every(within);
        demand(inside, `a slope of corner ${number} of '${name}' is out of bounds.`);
        const row = [
          ...own.map((i, bit) => (steep[bit] ? near.lam[i] : (near.lam[i] * flat) / UNIT)),
          ...others.map((i, place) => -((near.lam[i] * slopes[place].above) >> BigInt(slopes[place].shift))),
        ];
        const distance = isqrt(quadratic(row, inner) / p.below) + 1n + off;
        demand(distance <= length, `corner ${number} of '${name}' is farther than |v_g|.`);
      });
    }
    return "no first layer with margins of at least 1 is shorter: this is a global optimum.";
  }

  /* row^T matrix row of a symmetric matrix. */
  function quadratic(row, matrix) {
    let total = 0n;
    for (let i = 0; i < row.length; i += 1) {
      let part = 0n;
      for (let k = 0; k < i; k += 1) part += matrix[i][k] * row[k];
      total += row[i] * (2n * part + matrix[i][i] * row[i]);
    }
    return total;
  }

  /* No such network has positive margins only: f(r x) = r f(x) for r > 0, and with slope 1 f is linear. */
  function inseparable(p, claim) {
    const one = Object.keys(claim).length === 2;
    expect(one, "'inseparable' must have one of 'sample', 'samples' and 'combination'.");
    if ("sample" in claim) {
      const i = claim.sample;
      demand(i < p.n && p.x[i].every((value) => value === 0n), `sample ${i} is not zero.`);
      return `no such network separates the data: sample ${i} is zero, and so is its margin.`;
    }
    if ("samples" in claim) {
      const [i, k] = claim.samples;
      expect(claim.samples.length === 2 && i < p.n && k < p.n, "'samples' must be two samples.");
      const [own, both, other] = [[i, i], [i, k], [k, k]].map(([e, f]) => dot(p.x[e], p.x[f]));
      const onRay = both > 0n && both * both === own * other;
      demand(onRay && p.y[i] !== p.y[k], `${i} and ${k} are not on one ray with different labels.`);
      return `no such network separates the data: ${i} and ${k} are on one ray, with different labels.`;
    }
    const weights = claim.combination;
    expect(weights.length === p.n && p.linear, "a combination must be of all samples, and the slope 1.");
    demand(least(weights) >= 0n && most(weights) > 0n, "the combination must be positive.");
    const signed = weights.map((weight, i) => weight * p.y[i]);
    const vanishes = p.x[0].every((_, f) => sum(p.x.map((row, i) => signed[i] * row[f])) === 0n);
    demand(vanishes, "the combination is not zero.");
    return "no linear network separates the data: a positive combination of the y_i x_i is zero.";
  }

  /* A relation that is claimed, such as "stable rank <= 2", is false: the proved interval excludes it. */
  function refutes(claim, proved) {
    const { quantity, relation } = claim;
    const bound = Ratio.of(claim.bound);
    demand(proved.has(quantity), `the ${quantity} must be proved first.`);
    const [low, high] = proved.get(quantity);
    const above = low.exceeds(bound);
    const below = bound.exceeds(high);
    const excluded = {
      "<=": above, "<": !bound.exceeds(low), ">=": below, ">": !high.exceeds(bound), "=": above || below,
    }[relation];
    const told = `${quantity} ${relation} ${bound.told()}`;
    demand(excluded, `${told} is not refuted.`);
    return `${told} is false here, against ${plain(claim.id)}: ${plain(claim.sentence)}`;
  }

  // ---------------------------------------------------------------------------------------------------------
  // A certificate as a whole

  function clock() { return typeof performance === "undefined" ? Date.now() : performance.now(); }

  function reported(work) {
    const report = { accepted: false, claims: [], malformed: "", told: {}, milliseconds: 0 };
    const began = clock();
    try {
      work(report);
      report.accepted = report.claims.length > 0 && report.claims.every(({ holds }) => holds);
    } catch (error) { // never acceptance
      const known = error instanceof Malformed;
      report.malformed = known ? error.message : `the numbers are out of range (${error.name}).`;
    }
    report.milliseconds = clock() - began;
    return report;
  }

  /* The claims, each in its form: "kkt" first, or "inseparable" alone; each once, but for "refutes". */
  function claimsOf(told) {
    const names = told.claims.map((each) => {
      const name = isObject(each) && Object.hasOwn(each, "claim") ? each.claim : null;
      expect(typeof name === "string" && CLAIMS.has(name), "a claim has an unknown name.");
      return name;
    });
    const single = names.filter((name) => name !== "refutes");
    expect(new Set(single).size === single.length, "a claim occurs twice.");
    const pointless = names.filter((name) => name === "inseparable" || name === "rest").length;
    const alone = pointless === 1 && names.length === 1;
    const good = told.point === null ? alone : names[0] === "kkt" && pointless === 0;
    expect(good, "the first claim must be 'kkt', or 'inseparable' or 'rest', alone, if the point is null.");
    const fits = told.problem.loss !== "square" || names[0] === "rest";
    expect(fits, "for the square loss the claim must be 'rest'.");
    return told.claims.map((each, place) => CLAIMS.get(names[place])(each, "a claim"));
  }

  function judge(document, data, report) {
    expect(!nested(document), "it is nested too deeply.");
    const told = CERTIFICATE(document, "the certificate");
    for (const key of ["followed", "estimated"]) if (key in told) report.told[key] = plainly(told[key]);
    const claims = claimsOf(told);
    const p = new Problem(told.problem, data);
    const proved = new Map();
    let known = null;

    function prove(claim) {
      const name = claim.claim;
      if (name === "inseparable") return inseparable(p, claim);
      if (name === "rest") return rest(p, claim);
      if (name === "kkt") {
        const point = new Point(p, told.point);
        known = [p, point, kkt(p, point)];
        const how = point.tau === null ? "with residual 0" : "proved to be next to these numbers";
        const layers = p.both ? "both layers" : "the first layer";
        return `this is a KKT point of the margin problem for ${layers} (${how}).`;
      }
      demand(known !== null, "not looked at, because this is not shown to be a KKT point.");
      if (name === "refutes") return refutes(claim, proved);
      if (name === "stays") return stays(...known, claim);
      if (name === "optimal") return optimal(...known, claim);
      const [low, high] = (name === "rank" ? rank : stableRank)(...known, claim);
      proved.set(name, [low, high]);
      const value = name === "rank" ? low.told() : `from ${low.told()} to ${high.told()}`;
      return `the ${name} of the first layer (without biases) is ${value}.`;
    }

    for (const claim of claims) {
      try {
        report.claims.push({ claim: claim.claim, holds: true, sentence: prove(claim) });
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        report.claims.push({ claim: claim.claim, holds: false, sentence: error.message });
      }
    }
  }

  function checkCertificate(document, data) { return reported((report) => judge(document, data, report)); }
  function checkText(text, data) { return reported((report) => judge(parse(String(text)), data, report)); }

  /* node check.js file.json: exit code 0 if all claims hold, 1 if one is refused, 2 if the file cannot be
     read. */
  function main(file) {
    let text;
    try {
      const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
      text = decoder.decode(require("fs").readFileSync(file));
    } catch (error) {
      console.log(`Nothing is checked: ${file} cannot be read (${error.code ?? error.name}).`);
      return 2;
    }
    const report = checkText(text);
    const line = ({ claim, holds, sentence }) => `${holds ? "proved" : "REFUSED"}  ${claim}: ${sentence}`;
    const told = ([key, value]) => plain(`${key} (not proved): ${JSON.stringify(value)}`).slice(0, 300);
    if (report.malformed) console.log(`Nothing is checked: ${report.malformed}`);
    else console.log([...report.claims.map(line), ...Object.entries(report.told).map(told)].join("\n"));
    return report.malformed ? 2 : report.accepted ? 0 : 1;
  }

  if (typeof module === "object" && module.exports) {
    module.exports = { checkCertificate, checkText };
    if (require.main === module) process.exitCode = main(process.argv[2]);
  } else {
    root.checkCertificate = checkCertificate;
    root.checkText = checkText;
  }
})(typeof globalThis === "undefined" ? this : globalThis);
