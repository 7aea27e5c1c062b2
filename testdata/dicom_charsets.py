"""Writes testdata/dicom_charsets.json: texts in every defined term of Specific Character Set, and what
pydicom reads in them.

    pip install pydicom==3.0.2
    python3 testdata/dicom_charsets.py
"""

import json
import warnings

from pydicom.charset import convert_encodings, decode_bytes, python_encoding
from pydicom.valuerep import TEXT_VR_DELIMS

warnings.simplefilter("ignore")

cases = []


def add(terms, data):
    """One value, which pydicom may divide at backslashes first."""
    encodings = convert_encodings(list(terms) or None)
    bytes_of_others = terms[:1] in (["GB18030"], ["GBK"]) or b"$B" in data or b"$(D" in data
    parts = [data] if bytes_of_others else data.split(b"\\")
    text = "\\".join(decode_bytes(part, encodings, TEXT_VR_DELIMS) for part in parts)
    text = text.replace("\x1b$)A", "")  # pydicom 3.0.2 leaves this one escape in the text
    cases.append({"terms": "\\".join(terms), "bytes": data.hex(), "text": text})


ESC = b"\x1b"
SINGLE = {
    "6": (b"(B", "ascii"), "13": (b")I", "shift_jis"), "100": (b"-A", "latin_1"), "101": (b"-B", "iso8859_2"), "109": (b"-C", "iso8859_3"),
    "110": (b"-D", "iso8859_4"), "126": (b"-F", "iso8859_7"), "127": (b"-G", "iso8859_6"), "138": (b"-H", "iso8859_8"),
    "144": (b"-L", "iso8859_5"), "148": (b"-M", "iso8859_9"), "166": (b"-T", "tis_620"),
}
for number, (escape, codec) in SINGLE.items():
    # every character of the set
    every = bytes(b for b in range(0x20, 0x100) if b != 0x7F and b != 0x5C and bytes([b]).decode(codec, "ignore").isprintable() and bytes([b]).decode(codec, "ignore"))
    for n in range(0, len(every), 32):
        piece = every[n : n + 32]
        add([f"ISO_IR {number}"], piece)
        add([f"ISO 2022 IR {number}"], piece)
        add(["", f"ISO 2022 IR {number}"], b"a " + ESC + escape + piece)
        add(["ISO 2022 IR 100", f"ISO 2022 IR {number}"], b"\xe4" + ESC + escape + piece + ESC + b"-A\xf6")

# every character of the sets of two bytes, in the first and the second half
for terms, escape, codec, high in [
    (["", "ISO 2022 IR 87"], b"$B", "iso2022_jp", 0),
    (["", "ISO 2022 IR 87", "ISO 2022 IR 159"], b"$(D", "iso2022_jp_2", 0),
    (["", "ISO 2022 IR 149"], b"$)C", "euc_kr", 0x80), (["", "ISO 2022 IR 58"], b"$)A", "gb2312", 0x80),
]:
    for row in range(0x21, 0x7F):
        data = b""
        for column in range(0x21, 0x7F):
            pair = bytes([row | high, column | high])
            whole = ESC + escape + pair if not high else pair
            try:
                whole.decode(codec)
            except UnicodeDecodeError:
                continue
            data += pair
        if data:
            add(terms, ESC + escape + data + (ESC + b"(B" if not high else b""))

# all rows of GB18030 and GBK, and some of its four bytes; UTF-8
for term, codec in [("GB18030", "gb18030"), ("GBK", "gbk")]:
    for row in range(0x81, 0xFF, 9):
        data = b""
        for column in [*range(0x40, 0x7F), *range(0x80, 0xFF)]:
            pair = bytes([row, column])
            text = pair.decode(codec, "replace")
            if len(text) == 1 and text != "\ufffd" and not 0xE000 <= ord(text) < 0xF900:
                data += pair
        if data:
            add([term], b"x" + data)
add(["GB18030"], "ägÄ€𠀀𝄞".encode("gb18030"))
add(["ISO_IR 192"], "Größe печень 肝臓 간 ตับ 𠀀".encode())
add(["ISO_IR 192", "ISO 2022 IR 149"], "Größe 肝臓".encode())
add(["ISO 2022 GBK"], "肝脏".encode("gbk"))
add(["ISO 2022 58"], "肝脏".encode("gb2312"))

# code extensions as PS3.5 annexes H, I and K have them
kr = ESC + b"$)C" + "간장".encode("euc_kr")
add(["", "ISO 2022 IR 149"], kr + b" left")
add(["ISO 2022 IR 6", "ISO 2022 IR 149"], b"Hong^Gildong " + kr)
add(["", "ISO 2022 IR 149"], kr + b"\r\n" + kr + b"\tx\x0c" + kr + b"\\" + kr)
add(["ISO 2022 IR 149"], "간장".encode("euc_kr"))
add(["", "ISO 2022 IR 149"], b"INCE" + kr + b"^" + "간".encode("euc_kr") + b"=x")
jp = ESC + b"$B" + "肝臓".encode("iso2022_jp")[3:-3] + ESC
add(["ISO 2022 IR 13", "ISO 2022 IR 87"], b"\xb6\xdd " + jp + b"(J" + b" \xb6\xdd")
add(["ISO 2022 IR 13", "ISO 2022 IR 87"], b"\xd4\xcf\xc0\xde" + jp + b"(B" + b" liver")
add(["", "ISO 2022 IR 87", "ISO 2022 IR 13"], b"a" + jp + b"(J" + b"b" + ESC + b")I\xb6\xdd")
add(["ISO 2022 IR 100", "ISO 2022 IR 144"], "Größe ".encode("latin_1") + ESC + b"-L" + "печень".encode("iso8859_5"))
add(["ISO 2022 IR 144", "ISO 2022 IR 100"], "печень ".encode("iso8859_5") + ESC + b"-A" + "Größe".encode("latin_1") + b"\n" + "печень".encode("iso8859_5"))
add(["ISO 2022 IR 126", "ISO 2022 IR 138", "ISO 2022 IR 127"], "ήπαρ ".encode("iso8859_7") + ESC + b"-H" + "כבד".encode("iso8859_8") + ESC + b"-G" + "كبد".encode("iso8859_6"))
add(["", "ISO 2022 IR 58"], b"Gan " + ESC + b"$)A" + "肝".encode("gb2312") + b"\r\n" + ESC + b"$)A" + "脏".encode("gb2312"))
add(["ISO 2022 IR 6", "ISO 2022 IR 166"], b"liver " + ESC + b"-T" + "ตับ".encode("tis_620"))

# no set, or the default one, and bytes that only Latin-1 has; spelling mistakes that pydicom corrects
add([], b"Gr\xf6\xdfe")
add(["ISO_IR 6"], b"Gr\xf6\xdfe")
add(["ISO-IR 144"], "печень".encode("iso8859_5"))
add(["ISO IR 166"], "ตับ".encode("tis_620"))
add(["ISO-2022-IR-100", "ISO-2022-IR-144"], b"\xe4" + ESC + b"-L" + "печень".encode("iso8859_5"))
add(["ISO_IR 999"], b"Gr\xf6\xdfe")

assert {t for t in python_encoding if t} <= {t for c in cases for t in c["terms"].split("\\")} | {"ISO_IR 6"}, "a term is not tried"

with open("testdata/dicom_charsets.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c, ensure_ascii=True) for c in cases) + "\n]\n")
