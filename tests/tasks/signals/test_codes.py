"""What QR and bar codes hold is searched like read text, and redaction covers them; numbers on goods are left out."""

import numpy as np
import PIL.Image
import pytest
import zxingcpp

from tasks.images.codes import codes_in
from tasks.images.decode import from_pixels
from tasks.policy.redact import fill_boxes, grown
from tasks.signals.registry import signal_of
from tests.builders import drawn_image

CARD = "BEGIN:VCARD\nFN:Jane Doe\nTEL:+1 202 555 0142\nEMAIL:jane.doe@example.com\nEND:VCARD"
PERSONAL = {
    "QRCode": CARD,
    "Code128": "jane.doe@example.com",
    "PDF417": CARD,
    "DataMatrix": "https://u:pw@host.example/x",
}


def shown(kind: str, text: str, angle: float = 0):
    """A photograph-like image with a code on it."""
    made = zxingcpp.create_barcode(text, zxingcpp.barcode_format_from_str(kind))
    code = PIL.Image.fromarray(np.asarray(zxingcpp.write_barcode_to_image(made, scale=3)).squeeze())
    picture = PIL.Image.fromarray(drawn_image(4, (1100, 1100)).rgb)
    turned = code.convert("RGBA").rotate(angle, PIL.Image.Resampling.BICUBIC, expand=True)
    picture.paste(turned, (550 - turned.width // 2, 550 - turned.height // 2), turned)
    return from_pixels(np.asarray(picture))


@pytest.mark.parametrize("angle", [0, 90, 180, 20])
def test_personal_data_in_a_qr_code_is_found_at_any_turn(embedded, angle):
    (read,) = signal_of("image_text", embedded).values([shown("QRCode", CARD, angle)])
    assert CARD in read.text
    (found,) = signal_of("text_pii", embedded).values([read.text])
    assert {"email", "phone"} <= set(found.types)
    box = read.boxes[-1]
    assert read.text[box.start : box.end] == CARD and read.line_count == len(read.boxes) - 1


@pytest.mark.parametrize("kind", PERSONAL)
@pytest.mark.parametrize("angle", [0, 90])
def test_a_redacted_code_can_no_longer_be_read(kind, angle):
    image = shown(kind, PERSONAL[kind], angle)
    (code,) = codes_in(image)
    assert code.text == PERSONAL[kind]
    assert codes_in(fill_boxes(image, [grown(code.box, image.width, image.height)])) == []


def test_the_number_of_an_article_is_not_read():
    """Its digits would pass for a card's: 5901234123457 has a right check digit."""
    assert zxingcpp.read_barcodes(shown("EAN13", "5901234123457").rgb)
    assert codes_in(shown("EAN13", "5901234123457")) == []
