"""CRC-32C (Castagnoli), in plain Python and, where numpy is there, thousands of lanes at a time."""
try:
    import numpy
except ImportError:
    numpy = None

POLYNOMIAL = 0x82F63B78  # bit-reversed
LANES = 1 << 13
WORTH_LANES = 1 << 16  # bytes; below, splitting costs more than it saves


def make_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return table


TABLE = make_table()


def crc32c(data):
    """Of a bytes-like object."""
    data = memoryview(data).cast("B")
    if numpy is None or len(data) < WORTH_LANES:
        return update(0xFFFFFFFF, data) ^ 0xFFFFFFFF
    return in_lanes(numpy.frombuffer(data, numpy.uint8)) ^ 0xFFFFFFFF


def update(register, data):
    for byte in data:
        register = register >> 8 ^ TABLE[(register ^ byte) & 255]
    return register


def in_lanes(data):
    """The register after data, unlike update from a fixed start. A register is linear in start and
    bytes, so that of a whole is that of its left half, moved over the right one, xor that of the
    right half from 0."""
    width = len(data) // LANES
    lanes = data[:width * LANES].reshape(LANES, width)
    table = numpy.array(TABLE, numpy.uint32)
    registers = numpy.zeros(LANES, numpy.uint32)
    registers[0] = 0xFFFFFFFF
    for column in range(width):
        registers = registers >> 8 ^ table[(registers ^ lanes[:, column]) & 255]
    move = columns_of_move(width)
    while len(registers) > 1:
        registers = apply(move, registers[0::2]) ^ registers[1::2]
        move = apply(move, move)
    return update(int(registers[0]), data[width * LANES:].tobytes())


def columns_of_move(count):
    """What moving a register over count zero bytes makes of each of its bits."""
    move = numpy.array([1 << bit for bit in range(32)], numpy.uint32)
    byte = numpy.array([update(1 << bit, b"\0") for bit in range(32)], numpy.uint32)
    while count:
        if count & 1:
            move = apply(byte, move)
        byte = apply(byte, byte)
        count >>= 1
    return move


def apply(columns, registers):
    result = numpy.zeros_like(registers)
    for bit in range(32):
        result ^= numpy.where(registers >> bit & 1, columns[bit], 0).astype(numpy.uint32)
    return result
