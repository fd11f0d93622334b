"""Reads machine code for GPUs without tools of the CUDA toolkit: which kernels, how many registers and
bytes of stack each. An ELF file made by ptxas, or a library that holds several in fatbins.
"""

import struct

FATBIN_MAGIC = 0xBA55ED50
PTX, ELF = 1, 2  # kinds of a fatbin's entry
REGISTERS, FRAME = 0x2F, 0x11  # attributes of .nv.info: symbol and value


def sections(elf):
    """(name, contents, index of the section that it links to, size of an entry) of each."""
    start, = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    rows = [struct.unpack_from("<IIQQQQIIQQ", elf, start + i * size) for i in range(count)]
    for name, _, _, _, offset, length, link, _, _, entry in rows:
        yield text_at(elf, rows[names][4] + name), elf[offset:offset + length], link, entry


def text_at(data, offset):
    return data[offset:data.index(b"\0", offset)].decode()


def kernels(cubin):
    """{name: [registers, stack bytes]} of an ELF file made by ptxas."""
    table = list(sections(cubin))
    _, symbols, strings, entry = next(row for row in table if row[0] == ".symtab")
    info = next((row[1] for row in table if row[0] == ".nv.info"), b"")
    found, at = {}, 0
    while at < len(info):
        form, attribute, value = struct.unpack_from("<BBH", info, at)
        if form == 4 and attribute in (REGISTERS, FRAME):
            symbol, number = struct.unpack_from("<II", info, at + 4)
            name = text_at(table[strings][1], struct.unpack_from("<I", symbols, symbol * entry)[0])
            found.setdefault(name, [None, None])[attribute == FRAME] = number
        at += 4 + value * (form == 4)
    return found


def parts(library):
    """(kind, architecture, size, contents) of all entries of the fatbins in a library."""
    for name, data, _, _ in sections(library):
        at = 0
        while name == ".nv_fatbin" and at < len(data):
            magic, _, header, length = struct.unpack_from("<IHHQ", data, at)
            if magic != FATBIN_MAGIC:
                at += 8  # between two fatbins
                continue
            at, end = at + header, at + header + length
            while at < end:
                kind, _, header, payload = struct.unpack_from("<HHIQ", data, at)
                arch, = struct.unpack_from("<I", data, at + 28)
                yield kind, arch, payload, data[at + header:at + header + payload]
                at += header + payload


def read(path):
    with open(path, "rb") as file:
        return file.read()
